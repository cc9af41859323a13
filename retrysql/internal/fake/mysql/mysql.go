// Package mysql has the error types of three MySQL drivers in the shapes that
// package retrysql looks for, by name, in the module that may not import them.
package mysql

// MySQLError is shaped like that of github.com/go-sql-driver/mysql.
type MySQLError struct { //nolint:revive // the name is what counts
	Number   uint16
	SQLState [5]byte
	Message  string
}

// Error implements error.
func (e *MySQLError) Error() string { return e.Message }

// MyError is shaped like that of github.com/go-mysql-org/go-mysql/mysql.
type MyError struct {
	Code    uint16
	Message string
	State   string
}

// Error implements error.
func (e *MyError) Error() string { return e.Message }

// Error has a name that is looked for, and a Code that is no number.
type Error struct{ Code string }

// Error implements error.
func (e Error) Error() string { return e.Code }

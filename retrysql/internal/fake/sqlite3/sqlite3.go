// Package sqlite3 has the error types of github.com/mattn/go-sqlite3 in the shape
// that package retrysql looks for, by name.
package sqlite3

// Error is a value with its codes in fields.
type Error struct {
	Code         ErrNo
	ExtendedCode ErrNoExtended
}

// Error implements error.
func (Error) Error() string { return "sqlite3" }

// ErrNo is a result code.
type ErrNo int //nolint:errname // the name is what counts

// Error implements error.
func (ErrNo) Error() string { return "errno" }

// ErrNoExtended is an extended result code.
type ErrNoExtended int //nolint:errname // the name is what counts

// Error implements error.
func (ErrNoExtended) Error() string { return "errno" }

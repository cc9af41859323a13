// Package sqlite has the error type of modernc.org/sqlite in the shape that
// package retrysql looks for, by name.
package sqlite

// Error has its code in a method.
type Error struct{ ResultCode int }

// Error implements error.
func (e *Error) Error() string { return "sqlite" }

// Code returns the extended result code.
func (e *Error) Code() int { return e.ResultCode }

// OtherError is not about SQLite's codes.
type OtherError struct{}

// Error implements error.
func (*OtherError) Error() string { return "other" }

// Code returns what would be BUSY.
func (*OtherError) Code() int { return 5 }

// Package sqlite3 has the error types of github.com/ncruces/go-sqlite3 in the
// shape that package retrysql looks for, by name.
package sqlite3

// Error has its codes in methods that return types of its own.
type Error struct{ ResultCode uint16 }

// Error implements error.
func (e *Error) Error() string { return "sqlite3" }

// Code returns the result code.
func (e *Error) Code() ErrorCode { return ErrorCode(e.ResultCode) }

// ExtendedCode returns the extended result code.
func (e *Error) ExtendedCode() ExtendedErrorCode { return ExtendedErrorCode(e.ResultCode) }

// Temporary is true for INTERRUPT too, which is the caller's own doing.
func (e *Error) Temporary() bool { return e.Code() == 5 || e.Code() == 9 }

// ErrorCode is a result code.
type ErrorCode uint8 //nolint:errname // the name is what counts

// Error implements error.
func (ErrorCode) Error() string { return "code" }

// ExtendedErrorCode is an extended result code.
type ExtendedErrorCode uint16 //nolint:errname // the name is what counts

// Error implements error.
func (ExtendedErrorCode) Error() string { return "code" }

//go:build !plan9

package retry

// ErrnoOn judges an errno as another system than the tests' would.
var ErrnoOn = errnoOn

// Package classify has the tests of retry.Classify with trees of errors, and with errors that
// only clients of servers make.
package classify

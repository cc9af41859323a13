//go:build !cgo

package sqltest_test

// mattn would be the name of the driver that needs a C compiler.
const mattn = ""

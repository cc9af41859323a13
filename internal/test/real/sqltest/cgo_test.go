//go:build cgo

package sqltest_test

import _ "github.com/mattn/go-sqlite3"

// mattn is the name of the driver that needs a C compiler.
const mattn = "sqlite3"

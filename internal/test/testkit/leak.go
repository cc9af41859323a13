package testkit

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
)

// NoLeaks runs the tests of a package, and fails if a goroutine is left that waits for what
// nobody can reach any more. Before Go 1.27 it only runs the tests. Call it from TestMain.
func NoLeaks(m *testing.M) {
	code := m.Run()
	if profile := pprof.Lookup("goroutineleak"); profile != nil && code == 0 {
		var leaked bytes.Buffer
		err := profile.WriteTo(&leaked, 1)
		if first, _, _ := bytes.Cut(leaked.Bytes(), []byte("\n")); err != nil || string(first) != "goroutineleak profile: total 0" {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err, leaked.String())
			code = 1
		}
	}
	os.Exit(code)
}

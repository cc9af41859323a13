package retrysqs_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs forty tests at a time, because they mostly wait for the engine.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "40")
	os.Exit(m.Run())
}

package retrytemporal_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs ten tests at a time, because they mostly wait for the engine.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	os.Exit(m.Run())
}

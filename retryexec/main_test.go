package retryexec_test

import (
	"os"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

func TestMain(m *testing.M) {
	if script, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(script))
	}
	retryexec.SetPipeDelay(2 * time.Second)
	os.Exit(m.Run())
}

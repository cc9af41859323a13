package retrystreams_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t)
			return q, q.name
		},
		Attach: func(t testing.TB, name string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, name: name, single: true}
		},
	}
	crash.Run(t)
}

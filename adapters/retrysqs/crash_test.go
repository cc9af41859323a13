package retrysqs_test

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
			q := open(t, "")
			return q, q.url
		},
		Attach: func(t testing.TB, url string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, url: url, single: true, ends: map[string]enginetest.Outcome{}, labels: map[string]map[string]string{}, receipts: map[string]string{}, done: map[string]string{}}
		},
		Forgets: true,
	}
	crash.Run(t)
}

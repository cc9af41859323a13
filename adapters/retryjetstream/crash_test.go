package retryjetstream_test

import (
	"strings"
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestCrash kills worker processes at random moments. The server is in the process of
// the test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t, startServer(t))
			return q, q.url + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			url, name, _ := strings.Cut(address, " ")
			return &queue{t: t, url: url, name: name, single: true}
		},
	}
	crash.Run(t)
}

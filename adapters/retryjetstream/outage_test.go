package retryjetstream_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	suffer(t, startServer(t))
}

// TestOutageLoopback is for a server in a process of its own. Version 2.9 delivers a
// message as new again.
func TestOutageLoopback(t *testing.T) {
	t.Parallel()
	suffer(t, loopback(t))
}

func suffer(t *testing.T, url string) {
	t.Helper()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, url)
		q.cable = cable
		return q
	}}
	outage.Run(t)
}

package retrykafka_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the brokers again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, 8)
		q.cable = cable
		return q
	}}
	outage.Run(t)
}

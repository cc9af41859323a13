package retrysqs_test

import (
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

var outage = &enginetest.Outage{
	Stops: 100 * time.Second,
	Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, "")
		q.cable = cable
		return q
	},
}

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	outage.Run(t)
}

// TestSilence has workers stop although the server is silent.
func TestSilence(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	outage.Silence(t)
}

package retrysqs_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, "")
		q.cable = cable
		return q
	}}
	outage.Run(t)
}

package retryasynq_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose Redis again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			return q
		},
		Lost: func(q enginetest.Queue) error { return died(q, nil, nil) },
	}
	outage.Run(t)
}

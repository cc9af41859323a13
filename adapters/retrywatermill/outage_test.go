package retrywatermill_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose NATS again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	suffer(t, func(t testing.TB) *queue {
		t.Helper()
		return open(t, func(topics ...string) broker { return openNATS(t, many, topics...) })
	})
}

// TestOutageOfRedis has them lose Redis.
func TestOutageOfRedis(t *testing.T) {
	t.Parallel()
	suffer(t, func(t testing.TB) *queue {
		t.Helper()
		return open(t, func(topics ...string) broker { return openRedis(t, topics...) })
	})
}

func suffer(t *testing.T, open func(t testing.TB) *queue) {
	t.Helper()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			return q
		},
		Forgets: true,
		Twice:   true,
	}
	outage.Run(t)
}

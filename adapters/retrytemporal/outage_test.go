package retrytemporal_test

import (
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		return &queue{t: t, cable: cable, server: startServer(t, 8*time.Second, &commonpb.RetryPolicy{
			InitialInterval: durationpb.New(50 * time.Millisecond), BackoffCoefficient: 2,
		})}
	}}
	outage.Run(t)
}

package retrypubsub_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// Receive returns in the time that the package comment says after its context has ended, also
// if the server is silent, with the client's own settings. One message is in work, and fails.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"success": nil, "failure": assert.AnError, "dead letter": retry.MarkFinal(assert.AnError)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, cable := open(t, plain), enginetest.NewLink()
			client := connect(t, q.address, cable)
			r := &retrypubsub.Retries{Subscription: q.name, Publisher: client.Publisher(q.name), Dead: client.Publisher(q.name + "-dead")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun, over := make(chan struct{}), make(chan error)
			go func() {
				over <- client.Subscriber(q.name).Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
					_ = r.Handle(ctx, msg, func(context.Context) error {
						close(begun)
						<-ctx.Done()
						return err
					})
				})
			}()
			q.publish("a", nil)
			<-begun
			defer cable.Silence()()
			at := time.Now()
			cancel()
			select {
			case err := <-over:
				t.Logf("returned %v after %v", err, time.Since(at))
			case <-time.After(3 * time.Minute): // two, and what a busy machine needs
				assert.Fail(t, "Receive has not returned")
			}
		})
	}
}

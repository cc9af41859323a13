package retryjetstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// Handle returns in the time that the package comment says, also if the server is silent when it
// is asked, with the client's own settings.
func TestSilence(t *testing.T) {
	t.Parallel()
	url := startServer(t)
	for name, err := range map[string]error{
		"success": nil, "failure": assert.AnError, "end": retry.MarkFinal(assert.AnError),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, cable := open(t, url), enginetest.NewLink()
			conn, failed := nats.Connect(url, nats.SetCustomDialer(cable))
			require.NoError(t, failed)
			js, failed := jetstream.New(conn)
			require.NoError(t, failed)
			r := &retryjetstream.Retries{JetStream: js, Consumer: nil, States: nil}
			r.Consumer, failed = js.Consumer(t.Context(), q.name, "workers")
			require.NoError(t, failed)
			r.States, failed = js.KeyValue(t.Context(), q.name)
			require.NoError(t, failed)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			msg, failed := r.Consumer.Next()
			require.NoError(t, failed)
			var at time.Time
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = r.Handle(t.Context(), msg, func(context.Context) error {
					t.Cleanup(cable.Silence())
					at = time.Now()
					return err
				})
			}()
			select {
			case <-over:
				t.Logf("returned after %v", time.Since(at).Round(time.Millisecond))
				assert.LessOrEqual(t, time.Since(at), 30*time.Second)
			case <-time.After(time.Minute):
				assert.Fail(t, "Handle has not returned")
			}
		})
	}
}

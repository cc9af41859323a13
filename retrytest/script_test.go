package retrytest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestScript(t *testing.T) {
	t.Parallel()
	errBusy := retry.MarkRateLimited(errors.New("busy"), 3*time.Second)
	op := retrytest.Script(errBoom, errBusy, nil)
	require.Zero(t, op.Calls())

	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not care
	assert.Equal(t, errBoom, op.Run(ctx))
	assert.Same(t, errBusy, op.Run(ctx))
	assert.NoError(t, op.Run(ctx))
	assert.Equal(t, 3, op.Calls())

	for call, want := range []string{
		"retrytest: call 4 of an operation with a script for 3",
		"retrytest: call 5 of an operation with a script for 3",
	} {
		err := op.Run(ctx)
		require.EqualError(t, err, want)
		assert.Equal(t, retry.Final, retry.Classify(err).Class)
		assert.Equal(t, call+4, op.Calls())
	}
	assert.EqualError(t, retrytest.Script().Run(ctx), "retrytest: call 1 of an operation with a script for 0")
}

func TestScriptKeepsItsOwnOutcomes(t *testing.T) {
	t.Parallel()
	outcomes := []error{errBoom}
	op := retrytest.Script(outcomes...)
	outcomes[0] = nil
	assert.Equal(t, errBoom, op.Run(t.Context()))
}

func TestScriptConcurrent(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 500
	outcomes := make([]error, goroutines*each)
	for i := 0; i < len(outcomes); i += 4 {
		outcomes[i] = errBoom
	}
	op := retrytest.Script(outcomes...)
	var failures atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if op.Run(context.Background()) != nil {
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, goroutines*each/4, failures.Load())
	assert.Equal(t, goroutines*each, op.Calls())
}

package retryjob_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

var ways = []struct {
	name string
	err  error
}{{"Done", nil}, {"Again", errBoom}}

func BenchmarkStored(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			p := &retry.Policy{MaxAttempts: 5}
			work := func(context.Context) error { return way.err }
			b.ReportAllocs()
			for b.Loop() {
				job := retryjob.Stored{Policy: p}
				job.Attempt(ctx, work)
			}
		})
	}
}

// An attempt allocates nothing, whatever comes of it.
func TestAllocsOfStored(t *testing.T) {
	p := &retry.Policy{MaxAttempts: 5}
	for _, way := range ways {
		work := func(context.Context) error { return way.err }
		ctx := t.Context()
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			job := retryjob.Stored{Policy: p}
			job.Attempt(ctx, work)
		}), way.name)
	}
}

//nolint:testpackage // What the contestants do is not exported.
package peers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Where two things are ready at once, select takes either, so that what may happen
// does in so many runs.
const runs = 200

func TestContextThatHasEnded(t *testing.T) {
	t.Parallel()
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for _, form := range []form{static, withValue, overLocals} {
		w := &Workload{Name: "dead", form: form, policy: usual}
		for _, c := range Contestants() {
			s := script{trace: &trace{}}
			err := w.run(c, s.op(dead, c), &s)([2]context.Context{dead, dead}, 1)
			assert.Equal(t, c.has(callsDead), len(s.trace.calls) > 0, c.Name)
			if !c.has(callsDead) {
				assert.ErrorIs(t, err, context.Canceled, c.Name)
			}
		}
	}
}

// The context ends while the operation runs or, worse, when the library asks for
// Done the first time, the second, and so on. No second attempt may see that.
func TestContextThatEnds(t *testing.T) {
	t.Parallel()
	w := &Workload{form: overLocals, policy: policy{attempts: 4}, script: script{failures: 10}}
	for _, c := range Contestants() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			for range runs {
				calls += afterCancel(t, c, w, 0)
				for question := 1; question <= 8; question++ {
					calls += afterCancel(t, c, w, question)
				}
			}
			assert.Equal(t, c.has(callsCanceled), calls > 0, "%d calls", calls)
		})
	}
}

// afterCancel returns how many attempts c makes, the first not counted, although
// the context has ended: with that question, or during the first call if it is 0.
func afterCancel(t *testing.T, c *Contestant, w *Workload, question int) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := &endsWhenAsked{Context: ctx, cancel: cancel, question: question}
	s := w.script
	s.trace = &trace{}
	if question == 0 {
		s.trace.onCall = cancel
	}
	err := w.run(c, nil, &s)([2]context.Context{asked, asked}, 1)
	assert.Error(t, err)
	late := 0
	for _, call := range s.trace.calls[min(1, len(s.trace.calls)):] {
		if call.ended {
			late++
		}
	}
	return late
}

// endsWhenAsked is a context that ends in the moment when it is asked for Done for
// the so many-th time.
type endsWhenAsked struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc
	question        int
}

func (c *endsWhenAsked) Done() <-chan struct{} {
	if c.question--; c.question == 0 {
		c.cancel()
	}
	return c.Context.Done()
}

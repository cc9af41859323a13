package enginetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// spoil has the sketch store nothing. Its messages come again.
func (q *sketch) spoil() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle = func(m *message, _ *retryjob.Stored, _ retryjob.Outcome) { m.visible = time.Now().Add(hidden) }
}

func (q *sketch) mend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle = settle
}

func openTwo(testing.TB) (q enginetest.Queue, spoil func() (func() error, error)) {
	bad := newSketch()
	return enginetest.Both(bad, newSketch()), func() (func() error, error) {
		bad.spoil()
		return func() error { bad.mend(); return nil }, nil
	}
}

// TestBadQueueIsWrong shows that the suite notices a bad queue that holds up the other one, and
// one whose jobs are lost.
func TestBadQueueIsWrong(t *testing.T) {
	t.Parallel()
	e := sketchEngine()
	e.OpenTwo = func(testing.TB) (enginetest.Queue, func() (func() error, error)) {
		bad, good := newSketch(), newSketch()
		return enginetest.Both(bad, good), func() (func() error, error) {
			bad.spoil()
			good.spoil()
			return func() error { bad.mend(); return nil }, nil
		}
	}
	assert.Len(t, inBubble(t, e, "bad queue").Faults, 6)

	e.OpenTwo = func(testing.TB) (enginetest.Queue, func() (func() error, error)) {
		bad := newSketch()
		return enginetest.Both(bad, newSketch()), func() (func() error, error) {
			bad.spoil()
			return func() error { return nil }, nil
		}
	}
	assert.Len(t, inBubble(t, e, "bad queue").Faults, 6)

	e.OpenTwo = nil
	e.InPlace = true
	assert.NotEmpty(t, inBubble(t, e, "bad queue").Faults, "it does not say why")
}

package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// On a machine that takes five times as long for what it does, all may take five times as long.
func TestMachine(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	m := &enginetest.Machine{}
	for i := range 100 {
		m.Note(begun.Add(time.Duration(i)*time.Second), time.Millisecond, time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, begun.Add(time.Hour)))
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, begun), "nobody has looked")
	busy := begun.Add(time.Hour)
	for i := range 100 {
		m.Note(busy.Add(time.Duration(i)*time.Second), 5*(time.Millisecond+enginetest.Allowance), 5*time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, busy.Add(-1)))
	assert.Equal(t, 5*time.Minute, m.Stretch(time.Minute, busy, busy.Add(time.Hour)))
	assert.Equal(t, time.Minute, (*enginetest.Machine)(nil).Stretch(time.Minute, begun, busy))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []*enginetest.Machine{nil, enginetest.Watch()} {
			begun := time.Now()
			ctx, cancel := m.Within(time.Minute)
			<-ctx.Done()
			cancel()
			assert.InDelta(t, time.Minute, time.Since(begun), float64(enginetest.Tick))
			if m != nil {
				assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, time.Now()))
				m.End()
			}
		}
	})
}

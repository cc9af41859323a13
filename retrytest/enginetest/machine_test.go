package enginetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// On a machine that takes five times as long for what it does, all may take five times as long.
func TestMachine(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	m := &machine{}
	for i := range 100 {
		m.note(begun.Add(time.Duration(i)*time.Second), time.Millisecond, time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.stretch(time.Minute, begun, begun.Add(time.Hour)))
	assert.Equal(t, time.Minute, m.stretch(time.Minute, begun, begun), "nobody has looked")
	busy := begun.Add(time.Hour)
	for i := range 100 {
		m.note(busy.Add(time.Duration(i)*time.Second), 5*(time.Millisecond+allowance), 5*time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.stretch(time.Minute, begun, busy.Add(-1)))
	assert.Equal(t, 5*time.Minute, m.stretch(time.Minute, busy, busy.Add(time.Hour)))
	assert.Equal(t, time.Minute, (*machine)(nil).stretch(time.Minute, begun, busy))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []*machine{nil, watch()} {
			begun := time.Now()
			ctx, cancel := m.within(time.Minute)
			<-ctx.Done()
			cancel()
			assert.InDelta(t, time.Minute, time.Since(begun), float64(tick))
			if m != nil {
				assert.NotEmpty(t, m.looks)
				m.end()
			}
		}
	})
}

package enginetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, begun := watch(), time.Now()
		time.Sleep(time.Minute)
		m.end()
		assert.Equal(t, time.Second, m.stretch(time.Second, begun, time.Now()), "no timer was late")
		assert.Equal(t, time.Second, m.stretch(time.Second, begun, begun.Add(1)))
		for i := range m.ticks { // each took twice as long
			m.ticks[i] = begun.Add(time.Duration(i+1) * 2 * tick)
		}
		got := m.stretch(time.Second, begun, begun.Add(time.Minute))
		assert.InDelta(t, 2*time.Second, got, float64(10*time.Millisecond))
	})
	assert.Equal(t, time.Second, (*machine)(nil).stretch(time.Second, time.Time{}, time.Now()))
}

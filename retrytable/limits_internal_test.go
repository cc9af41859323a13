package retrytable

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// After a look that found nothing and took long, the next one is within ten Polls, or a quarter of the
// time is spent.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	for took, pause := range map[time.Duration]time.Duration{10 * time.Millisecond: 200 * time.Millisecond, 5 * time.Second: 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			s := &claiming[int64]{running: &running[int64]{storing: &storing[int64]{shift: &shift[int64]{poll: time.Second}}}}
			s.ahead = ahead{all: true, took: took, looked: now.Add(-took)}
			require.NoError(t, s.look(sqltable.Some{}))
			assert.Equal(t, pause-took, s.ahead.again.Sub(now))
		})
	}
}

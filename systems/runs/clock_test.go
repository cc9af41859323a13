//nolint:thelper // what Each calls is the test itself
package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// A worker whose clock is an hour off, in either direction, breaks nothing. It is
// the clock of the database that is set here: the two differ all the same.
func TestWorkerClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		dbtest.Each(t, func(t *testing.T, db *shared.DB) {
			now := time.Now().Add(off)
			db, clock := dbtest.StopClock(t, db, now)
			pass := func(d time.Duration) {
				now = now.Add(d)
				clock.Set(t, now)
			}
			p := newTest(t, db)
			submit(t, db, "web", "a")
			p.errs = []error{errPassing, limited(2 * time.Minute)}
			p.one(true)
			assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
			pass(time.Minute - time.Millisecond)
			p.one(false)
			pass(time.Millisecond)
			p.one(true)
			assert.Equal(t, record{"error", 1, "rate_limited", 2 * time.Minute, false}, read(t, db, "a"), "the wait is the hint")
			p.one(false)
			pass(2 * time.Minute)

			// Dead, and not taken over as long as the lease holds.
			assert.Equal(t, []string{"a"}, claimed(t, p.store, 1))
			pass(time.Minute - time.Millisecond)
			p.one(false)
			assert.Equal(t, record{"processing", 1, "rate_limited", 0, true}, read(t, db, "a"))
			pass(time.Millisecond)
			p.one(false)
			assert.Equal(t, record{"error", 2, "retryable", 2 * time.Minute, false}, read(t, db, "a"))
			pass(2 * time.Minute)
			p.one(true)
			assert.Equal(t, record{status: "passed"}, read(t, db, "a"))
		})
	}
}

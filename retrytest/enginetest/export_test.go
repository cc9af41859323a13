package enginetest

import (
	"context"
	"testing"
	"time"
)

// Check runs one script, and returns how the engine differs from Execute.
func (e *Engine) Check(t testing.TB, name string) Result {
	t.Helper()
	return e.check(t, name)
}

// Report fails the test if the engine is not as it says.
var Report = report

// Machine is what says how busy the machine is.
type Machine = machine

var Watch = watch

const (
	Tick      = tick
	Allowance = allowance
)

func (m *machine) End() { m.end() }

func (m *machine) Note(at time.Time, took, worked time.Duration) { m.note(at, took, worked) }

func (m *machine) Stretch(d time.Duration, from, to time.Time) time.Duration {
	return m.stretch(d, from, to)
}

func (m *machine) Within(d time.Duration) (context.Context, context.CancelFunc) { return m.within(d) }

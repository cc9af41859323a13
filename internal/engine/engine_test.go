package engine_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

func TestCeil(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tt := range []struct{ delay, unit, cut time.Duration }{
		{-1, s, 0},
		{0, s, 0},
		{1, s, s},
		{s, s, s},
		{s + 1, s, 2 * s},
		{3*s/2 + 1, time.Millisecond, 3*s/2 + time.Millisecond},
		{3 * s / 2, 1, 3 * s / 2},
	} {
		assert.Equal(t, tt.cut, engine.Ceil(tt.delay, tt.unit).Truncate(tt.unit), "%v up to %v", tt.delay, tt.unit)
	}
	assert.Equal(t, time.Duration(math.MaxInt64), engine.Ceil(math.MaxInt64, s))
}

func TestMilli(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(1_800_000_000_123)
	assert.Equal(t, due.UnixMilli(), engine.Milli(due))
	assert.Equal(t, due.UnixMilli()+1, engine.Milli(due.Add(1)))
	assert.Equal(t, due.UnixMilli()+1, engine.Milli(due.Add(time.Millisecond)))
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "\xff", strings.Repeat("ä", 10)} {
		for most := range 25 {
			got := engine.Text(text, most)
			assert.LessOrEqual(t, len(got), most)
			assert.True(t, utf8.ValidString(got))
			assert.True(t, strings.HasPrefix(text, got))
		}
	}
	assert.Equal(t, "password=***", engine.Text("password=hunter2 no", 15))
}

func TestWait(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	engine.Wait(ctx, 0)
	engine.Wait(ctx, time.Nanosecond)
	cancel()
	engine.Wait(ctx, time.Hour)
}

// An Observer that panics does not reach the engine.
func TestTell(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Observer: &retry.Observer{Event: func(context.Context, retry.Event) { panic("odd") }}}
	job := retryjob.Stored{Policy: p, Decision: retry.Decision{Err: errors.New("boom")}}
	assert.NotPanics(t, func() { engine.Tell(t.Context(), &job) })
}

func TestReport(t *testing.T) {
	t.Parallel()
	var told error
	engine.Report(t.Context(), func(_ context.Context, err error) { told = err }, assert.AnError)
	assert.Equal(t, assert.AnError, told)
}

func TestGuard(t *testing.T) {
	t.Parallel()
	assert.NoError(t, engine.Guard("it", func() error { return nil }))
	assert.Equal(t, assert.AnError, engine.Guard("it", func() error { return assert.AnError }))
	var panicked *retry.PanicError
	require.ErrorAs(t, engine.Guard("it", func() error { panic("odd") }), &panicked)
	assert.Equal(t, "odd", panicked.Value)
	assert.Equal(t, "it", panicked.In)
	assert.NotEmpty(t, panicked.Stack)
}

// A function that ends its goroutine leaves no outcome.
func TestAttempt(t *testing.T) {
	t.Parallel()
	var job, lost retryjob.Stored
	assert.Equal(t, retryjob.Done, engine.Attempt(t.Context(), &job, func(context.Context) error { return nil }))
	assert.Zero(t, engine.Attempt(t.Context(), &lost, func(context.Context) error {
		runtime.Goexit()
		return nil
	}))
}

// What is saved can be read, and what strangers write is an error or what can be.
func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	fields := map[string]string{}
	due := time.UnixMilli(1_800_000_000_123)
	job := retryjob.Stored{State: retry.State{Failures: 2}, Lost: 1}
	require.NoError(t, engine.Save(func(name, value string) { fields[name] = value }, &job, due.Add(-1)))
	get := func(name string) string { return fields[name] }
	var again retryjob.Stored
	at, err := engine.Load(get, &again)
	require.NoError(t, err)
	assert.Equal(t, due, at, "rounded up")
	assert.Equal(t, job, again)

	fields[engine.LostKey] = "99"
	_, err = engine.Load(get, &again)
	require.NoError(t, err)
	assert.Equal(t, 1, again.Lost)
	for name, value := range map[string]string{engine.LostKey: "x", engine.DueKey: "soon", engine.StateKey: "f=-1"} {
		was := fields[name]
		fields[name] = value
		_, err := engine.Load(get, &again)
		require.Error(t, err, name)
		fields[name] = was
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	fields := map[string]string{engine.StateKey: "f=1", engine.DueKey: "2", "mine": "3", "theirs": "4"}
	assert.Equal(t, map[string]string{engine.StateKey: "f=1", engine.DueKey: "2", "mine": "3"}, engine.Take(fields, "mine", "other"))
	assert.Equal(t, map[string]string{"theirs": "4"}, fields)
}

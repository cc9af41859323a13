package retryslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// logger writes one line for every record of any level, without the time.
func logger(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		Level: retryslog.Off,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func lines(b *bytes.Buffer) []string {
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestObserve(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	after := retry.Verdict{Class: retry.RateLimited, After: time.Minute, Category: "http_429"}
	for _, test := range []struct {
		name  string
		event retry.Event
		want  string
	}{
		{
			"retrying",
			retry.Event{
				Kind: retry.Retrying, Policy: "task", Attempt: 2, Delay: time.Second,
				Verdict: retry.Verdict{Class: retry.Retryable, Category: "timeout"}, Err: boom, Elapsed: 3 * time.Second,
			},
			"level=WARN msg=retrying policy=task attempt=2 delay=1s class=retryable category=timeout elapsed=3s error=boom",
		},
		{
			"progress",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Delay: time.Second, Verdict: retry.Verdict{Progress: true}, Err: boom},
			"level=WARN msg=retrying attempt=1 progress=true delay=1s class=unknown elapsed=0s error=boom",
		},
		{
			"unknown error",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Err: boom},
			"level=WARN msg=retrying attempt=1 delay=0s class=unknown elapsed=0s error=boom",
		},
		{
			"hint",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Delay: 61 * time.Second, Verdict: after, Err: boom},
			"level=WARN msg=retrying attempt=1 delay=1m1s class=rate_limited category=http_429 retry_after=1m0s elapsed=0s error=boom",
		},
		{
			"gave up",
			retry.Event{
				Kind: retry.GaveUp, Attempt: 3, Stop: retry.StopRetryAfter, Verdict: after,
				Err: &retry.Error{Attempts: 3, Stop: retry.StopRetryAfter, RetryAfter: time.Minute, Err: boom},
			},
			`level=ERROR msg="gave up" attempt=3 stop=retry_after class=rate_limited category=http_429 retry_after=1m0s ` +
				`elapsed=0s error="failed after 3 attempts (server asks to wait 1m0s): boom"`,
		},
		{
			"refused by the budget",
			retry.Event{
				Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopBudget,
				Err: &retry.Error{Attempts: 1, Stop: retry.StopBudget, RetryAfter: time.Second, Err: boom},
			},
			`level=ERROR msg="gave up" attempt=1 stop=budget class=unknown retry_after=1s ` +
				`elapsed=0s error="failed after 1 attempt (local retry budget exhausted): boom"`,
		},
		{
			"final",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopFinal, Verdict: retry.Verdict{Class: retry.Final}, Err: boom},
			`level=ERROR msg="gave up" attempt=1 stop=final class=final elapsed=0s error=boom`,
		},
		{
			"canceled",
			retry.Event{Kind: retry.GaveUp, Stop: retry.StopCanceled, Err: &retry.Error{Stop: retry.StopCanceled}},
			`level=INFO msg="gave up" attempt=0 stop=canceled elapsed=0s error="not started: context canceled"`,
		},
		{
			"deadline",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopDeadline, Err: boom},
			`level=ERROR msg="gave up" attempt=1 stop=deadline elapsed=0s error=boom`,
		},
		{
			"gave up after progress",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopFinal, Verdict: retry.Verdict{Class: retry.Final, Progress: true}, Err: boom},
			`level=ERROR msg="gave up" attempt=1 progress=true stop=final class=final elapsed=0s error=boom`,
		},
		{
			"held",
			retry.Event{Kind: retry.Held, Policy: "prompt", Attempt: 1, Delay: time.Minute, Verdict: after, Err: boom},
			"level=WARN msg=held policy=prompt attempt=1 delay=1m0s class=rate_limited category=http_429 retry_after=1m0s elapsed=0s error=boom",
		},
		{
			"recovered",
			retry.Event{Kind: retry.Succeeded, Policy: "task", Attempt: 2, Elapsed: time.Second},
			"level=INFO msg=recovered policy=task attempt=2 elapsed=1s",
		},
		{"succeeded", retry.Event{Kind: retry.Succeeded, Attempt: 1}, ""},
		{"no event", retry.Event{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			retryslog.New(logger(&b), nil).Event(t.Context(), test.event)
			assert.Equal(t, test.want, strings.TrimSpace(b.String()))
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	var level slog.LevelVar
	o := retryslog.New(logger(&b), &retryslog.Options{
		Retrying: &level, GaveUp: slog.LevelWarn, Canceled: slog.LevelDebug, Recovered: retryslog.Off, Succeeded: slog.LevelDebug,
	})
	observe := func() {
		for _, e := range []retry.Event{
			{Kind: retry.Retrying, Attempt: 1},
			{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopAttempts},
			{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopCanceled},
			{Kind: retry.Succeeded, Attempt: 2},
			{Kind: retry.Succeeded, Attempt: 1},
		} {
			o.Event(t.Context(), e)
		}
	}
	observe()
	want := []string{
		"level=INFO msg=retrying attempt=1 delay=0s class=unknown elapsed=0s",
		`level=WARN msg="gave up" attempt=1 stop=attempts class=unknown elapsed=0s`,
		`level=DEBUG msg="gave up" attempt=1 stop=canceled elapsed=0s`,
		"level=DEBUG msg=succeeded attempt=1 elapsed=0s",
	}
	assert.Equal(t, want, lines(&b))

	b.Reset()
	level.Set(retryslog.Off) // while in use
	observe()
	assert.Equal(t, want[1:], lines(&b))
}

type panicking struct{}

func (panicking) Error() string { panic("oh") }

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"panicking", panicking{}, `error="%!v(PANIC=Error method: oh)"`},
		{"nil pointer", (*retry.Error)(nil), `error=<nil>`},
		{"secret", errors.New("GET https://user:pass@h/x?token=t: 503"), `error="GET https://h/x?token=*** 503"`},
		{"password", fmt.Errorf("login: %w", errors.New("password=hunter2")), `error="login: password=***"`},
		{"header", errors.New("sent Authorization: Bearer abc"), `error="sent Authorization: Bearer ***"`},
		{"prose", errors.New("token: expired"), `error="token: expired"`},
		{"lines", errors.Join(errors.New("a"), errors.New("b")), `error="a\nb"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			o := retryslog.New(logger(&b), nil)
			o.Event(t.Context(), retry.Event{Kind: retry.GaveUp, Stop: retry.StopFinal, Err: test.err})
			assert.Contains(t, b.String(), test.want)
		})
	}
}

type contextKey struct{}

// contextHandler logs a value of the context.
type contextHandler struct{ slog.Handler }

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Add("of", ctx.Value(contextKey{}))
	return h.Handler.Handle(ctx, r)
}

// The context of a call reaches the handler and Attrs.
func TestAttrs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := &retry.Policy{MaxAttempts: 2, Jitter: retry.NoJitter, Clock: &retrytest.Clock{}}
	p.Observer = retryslog.New(slog.New(contextHandler{logger(&b).Handler()}), &retryslog.Options{
		Succeeded: slog.LevelInfo,
		Attrs: func(ctx context.Context) []slog.Attr {
			user, ok := ctx.Value(contextKey{}).(string)
			if !ok {
				return nil
			}
			return []slog.Attr{slog.String("user", user), slog.Group("job", slog.Int("id", 7))}
		},
	})
	ctx := context.WithValue(t.Context(), contextKey{}, "joe")
	assert.Error(t, p.Execute(ctx, func(context.Context) error { return errors.New("boom") }))
	assert.NoError(t, p.Execute(ctx, func(context.Context) error { return nil }))
	assert.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
	assert.Equal(t, []string{
		"level=WARN msg=retrying attempt=1 delay=2s class=unknown elapsed=0s error=boom user=joe job.id=7 of=joe",
		`level=ERROR msg="gave up" attempt=2 stop=attempts class=unknown elapsed=2s ` +
			`error="failed after 2 attempts: boom" user=joe job.id=7 of=joe`,
		"level=INFO msg=succeeded attempt=1 elapsed=0s user=joe job.id=7 of=joe",
		"level=INFO msg=succeeded attempt=1 elapsed=0s of=<nil>",
	}, lines(&b))
}

// Not parallel: it sets the default logger.
func TestDefaultLogger(t *testing.T) { //nolint:paralleltest // see above
	o := retryslog.New(nil, nil)
	original := slog.Default()
	t.Cleanup(func() { slog.SetDefault(original) })
	var b bytes.Buffer
	slog.SetDefault(logger(&b)) // after New
	o.Event(t.Context(), retry.Event{Kind: retry.Succeeded, Attempt: 2})
	assert.Equal(t, []string{"level=INFO msg=recovered attempt=2 elapsed=0s"}, lines(&b))
}

// What is not logged costs nothing: no attributes are made, no error is asked
// for its text. Not parallel: AllocsPerRun counts everybody's.
func TestDisabled(t *testing.T) { //nolint:paralleltest // see above
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelError}))
	o := retryslog.New(l, &retryslog.Options{Attrs: func(context.Context) []slog.Attr {
		assert.Fail(t, "asked")
		return nil
	}})
	e := retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.New("boom"), Verdict: retry.Verdict{After: 1}}
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() { o.Event(ctx, e) }))
	assert.Empty(t, b.String())
}

// The texts of errors are without secrets.
func TestDecisionAndState(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Name: "task", Jitter: retry.NoJitter, FreeRateLimits: 1}
	first := time.Date(2026, time.November, 21, 6, 48, 0, 0, time.UTC)
	limited := retry.Verdict{Class: retry.RateLimited, After: time.Minute, Category: "http_429"}
	for _, tt := range []struct {
		name  string
		value slog.Attr
		text  string
		json  string
	}{
		{"no state", retryslog.State("v", retry.State{}), "", "{}"},
		{
			"state",
			retryslog.State("v", retry.State{Failures: 2, RateLimited: 1, Pending: 4, First: first, Key: "job 7"}),
			"v.failures=2 v.rate_limited=1 v.pending=4 v.first=2026-11-21T06:48:00.000Z",
			`{"v":{"failures":2,"rate_limited":1,"pending":4,"first":"2026-11-21T06:48:00Z"}}`,
		},
		{"no decision", retryslog.Decision("v", retry.Decision{}), "v.retry=false", `{"v":{"retry":false}}`},
		{
			"retry", retryslog.Decision("v", p.Next(retry.State{}, errors.New("lost"), first)),
			"v.retry=true v.delay=2s v.limit=3 v.state.failures=1",
			`{"v":{"retry":true,"delay":2000000000,"limit":3,"state":{"failures":1}}}`,
		},
		{
			"progress", retryslog.Decision("v", p.Next(retry.State{Failures: 2}, retry.MarkProgress(errors.New("lost")), first)),
			"v.retry=true v.delay=2s v.class=unknown v.progress=true v.limit=3 v.state.failures=1 v.state.first=2026-11-21T06:48:00.000Z",
			`{"v":{"retry":true,"delay":2000000000,"class":"unknown","progress":true,"limit":3,"state":{"failures":1,"first":"2026-11-21T06:48:00Z"}}}`,
		},
		{
			"end", retryslog.Decision("v", p.Next(retry.State{Failures: 2, First: first}, retry.MarkRetryable(errors.New("lost, token=abcdefg")), first)),
			`v.retry=false v.stop=attempts v.class=retryable v.limit=3 v.error="task failed after 3 attempts: lost, token=***" ` +
				"v.state.failures=3 v.state.first=2026-11-21T06:48:00.000Z",
			`{"v":{"retry":false,"stop":"attempts","class":"retryable","limit":3,"error":"task failed after 3 attempts: lost, token=***",` +
				`"state":{"failures":3,"first":"2026-11-21T06:48:00Z"}}}`,
		},
		{
			"hint", retryslog.Decision("v", (&retry.Policy{MaxRetryAfter: time.Second}).Decide(retry.State{}, limited, first)),
			"v.retry=false v.stop=retry_after v.delay=1m0s v.class=rate_limited v.category=http_429 v.retry_after=1m0s v.limit=3 v.state.failures=1",
			`{"v":{"retry":false,"stop":"retry_after","delay":60000000000,"class":"rate_limited","category":"http_429",` +
				`"retry_after":60000000000,"limit":3,"state":{"failures":1}}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var text, json bytes.Buffer
			only := &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
					return slog.Attr{}
				}
				return a
			}}
			slog.New(slog.NewTextHandler(&text, only)).Info("", tt.value)
			slog.New(slog.NewJSONHandler(&json, only)).Info("", tt.value)
			assert.Equal(t, tt.text, strings.TrimSpace(text.String()))
			assert.JSONEq(t, tt.json, json.String())
		})
	}
}

// TestStorm has ten failures a second for two minutes, and then some later.
func TestStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Minute})
		fail := retry.Event{
			Kind: retry.Retrying, Attempt: 1, Err: errors.New("boom"),
			Verdict: retry.Verdict{Class: retry.Retryable, Category: "timeout"},
		}
		for range 1201 {
			o.Event(t.Context(), fail)
			time.Sleep(100 * time.Millisecond)
		}
		for range 5 {
			o.Event(t.Context(), fail)
		}
		time.Sleep(time.Hour)
		o.Event(t.Context(), fail)
		time.Sleep(time.Hour)
		o.Event(t.Context(), fail)
		const line = "level=WARN msg=retrying attempt=1 delay=0s class=retryable category=timeout elapsed=0s error=boom"
		assert.Equal(t, []string{line, line + " suppressed=599", line + " suppressed=599", line + " suppressed=5", line}, lines(&out))
	})
}

// TestStormKinds has lines that say different things: none holds back another.
func TestStormKinds(t *testing.T) {
	t.Parallel()
	a := retry.Event{Kind: retry.Retrying, Policy: "a", Attempt: 1, Verdict: retry.Verdict{Class: retry.Retryable, Category: "x"}}
	b, c, d, e, f := a, a, a, a, a
	b.Policy = "b"
	c.Verdict.Category = "y"
	d.Verdict.Class = retry.RateLimited
	e.Kind, e.Stop = retry.GaveUp, retry.StopAttempts
	f.Kind, f.Stop = retry.GaveUp, retry.StopBudget
	var out bytes.Buffer
	o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Hour, Succeeded: slog.LevelInfo})
	for range 3 {
		for _, e := range []retry.Event{a, b, c, d, e, f, {Kind: retry.Succeeded, Attempt: 1}, {Kind: retry.Succeeded, Attempt: 2}} {
			e.Elapsed++ // of no account
			o.Event(t.Context(), e)
		}
	}
	assert.Len(t, lines(&out), 8)
}

// TestStormCategories has a server that makes up categories.
func TestStormCategories(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Hour})
	for n := range 100_000 {
		o.Event(t.Context(), retry.Event{
			Kind: retry.Retrying, Attempt: 1, Verdict: retry.Verdict{Class: retry.Retryable, Category: fmt.Sprint("made_up_", n)},
		})
	}
	assert.Len(t, lines(&out), 1001)
}

// TestStormFirstLine has a policy that has never failed before. Its first line is there, even if
// lines of a thousand kinds of other policies have been left out.
func TestStormFirstLine(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Minute})
			for n := range 1000 {
				for range lines {
					o.Event(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "search", Verdict: retry.Verdict{Category: fmt.Sprint(n)}})
				}
				time.Sleep(time.Hour)
			}
			o.Event(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "payments", Verdict: retry.Verdict{Category: "new"}})
			time.Sleep(time.Second)
			o.Event(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "login", Verdict: retry.Verdict{Category: "new"}})
			assert.Contains(t, out.String(), "policy=payments")
			assert.Contains(t, out.String(), "policy=login")
		})
	}
}

// TestStormOff has no Interval: every line is logged.
func TestStormOff(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{0, -1} {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: interval})
		for range 10 {
			o.Event(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
		}
		assert.Len(t, lines(&out), 10)
	}
}

// TestStormLevels has lines that no handler wants: they neither count nor hold back.
func TestStormLevels(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	level := &slog.LevelVar{}
	level.Set(slog.LevelError)
	o := retryslog.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), &retryslog.Options{Interval: time.Hour})
	o.Event(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
	level.Set(slog.LevelDebug)
	o.Event(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
	assert.Len(t, lines(&out), 1)
	assert.NotContains(t, out.String(), "suppressed")
}

// TestStormShared has an Observer in use by many goroutines: each line is logged or
// counted.
func TestStormShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Second})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 100 {
					o.Event(context.Background(), retry.Event{Kind: retry.Retrying, Attempt: 1})
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		o.Event(context.Background(), retry.Event{Kind: retry.Retrying, Attempt: 1})
		total := 0
		for _, line := range lines(&out) {
			n := 0
			if _, count, ok := strings.Cut(line, "suppressed="); ok {
				_, err := fmt.Sscan(count, &n)
				assert.NoError(t, err)
			}
			total += 1 + n
		}
		assert.Equal(t, 1001, total)
	})
}

// BenchmarkStorm has lines that are left out.
func BenchmarkStorm(b *testing.B) {
	o := retryslog.New(slog.New(slog.NewTextHandler(io.Discard, nil)), &retryslog.Options{Interval: time.Hour})
	e := retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.New("boom")}
	b.ReportAllocs()
	for b.Loop() {
		o.Event(b.Context(), e)
	}
}

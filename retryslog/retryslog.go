package retryslog

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/redact"
)

// Off is the level of events that are not logged.
const Off slog.Level = math.MinInt

// Options are the levels of the messages, a limit, and additional attributes. A nil
// level is the default.
type Options struct {
	// Retrying is for a failure that is followed by another attempt. The
	// default is Warn.
	Retrying slog.Leveler

	// Held is for a Quota that holds all calls. The default is Warn.
	Held slog.Leveler

	// GaveUp is for the end of a call that failed. The default is Error.
	GaveUp slog.Leveler

	// Canceled is for the end of a call whose context was canceled: the caller
	// did not want the result any more. The default is Info.
	Canceled slog.Leveler

	// Recovered is for a success after retries. The default is Info.
	Recovered slog.Leveler

	// Succeeded is for a success at the first attempt. The default is Off.
	Succeeded slog.Leveler

	// Interval, if positive, keeps an outage from filling the disk. Lines are of the same
	// kind if they have the same message, policy, class, category and stop. Of each kind,
	// the first line is logged, and then one line per Interval, with the number of lines
	// that were left out in between. Lines about successes are limited too. The last number
	// of an outage comes with the next line of that kind, however late. 0 or less means that
	// every line is logged.
	Interval time.Duration

	// Attrs, if not nil, returns attributes to be added to each record, such as
	// the job or the user that is in the context of the call. It is called only if
	// the record is logged, and by several goroutines at the same time.
	Attrs func(ctx context.Context) []slog.Attr
}

// New returns an Observer that logs to a logger. A nil logger means the result of
// [slog.Default] at the time of the event; nil options mean the defaults.
//
// Handlers get the context of the call. Like the Policy, the Observer may be used
// by any number of goroutines.
func New(logger *slog.Logger, opts *Options) *retry.Observer {
	if opts == nil {
		opts = &Options{}
	}
	o := &observer{logger: logger, options: *opts, storm: storm{interval: opts.Interval}}
	return &retry.Observer{Event: o.event}
}

type observer struct {
	logger  *slog.Logger
	options Options
	storm   storm
}

func (o *observer) event(ctx context.Context, e retry.Event) {
	message, level := o.describe(e)
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	if level == Off || !logger.Enabled(ctx, level) {
		return // before the attributes are made
	}
	suppressed := 0
	if o.options.Interval > 0 {
		n, ok := o.storm.admit(message, e, time.Now())
		if !ok {
			return
		}
		suppressed = n
	}
	attrs := attributes(e)
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	if o.options.Attrs != nil {
		attrs = append(attrs, o.options.Attrs(ctx)...)
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

func (o *observer) describe(e retry.Event) (message string, level slog.Level) {
	switch {
	case e.Kind == retry.Retrying:
		return "retrying", or(o.options.Retrying, slog.LevelWarn)
	case e.Kind == retry.Held:
		return "held", or(o.options.Held, slog.LevelWarn)
	case e.Kind == retry.GaveUp && e.Stop == retry.StopCanceled:
		return "gave up", or(o.options.Canceled, slog.LevelInfo)
	case e.Kind == retry.GaveUp:
		return "gave up", or(o.options.GaveUp, slog.LevelError)
	case e.Kind == retry.Succeeded && e.Attempt > 1:
		return "recovered", or(o.options.Recovered, slog.LevelInfo)
	case e.Kind == retry.Succeeded:
		return "succeeded", or(o.options.Succeeded, Off)
	default:
		return e.Kind.String(), Off
	}
}

func or(level slog.Leveler, otherwise slog.Level) slog.Level {
	if level == nil {
		return otherwise
	}
	return level.Level()
}

func attributes(e retry.Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 9)
	if e.Policy != "" {
		attrs = append(attrs, slog.String("policy", e.Policy))
	}
	attrs = append(attrs, slog.Int("attempt", e.Attempt))
	if e.Verdict.Progress {
		attrs = append(attrs, slog.Bool("progress", true))
	}
	switch e.Kind {
	case retry.Retrying, retry.Held:
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	case retry.GaveUp:
		attrs = append(attrs, slog.String("stop", e.Stop.Error()))
	case retry.Succeeded: // nothing but the attempt
	}
	if e.Kind != retry.Succeeded && !endedByContext(e) {
		attrs = append(attrs, slog.String("class", e.Verdict.Class.String()))
	}
	if e.Verdict.Category != "" {
		attrs = append(attrs, slog.String("category", e.Verdict.Category))
	}
	if after := retryAfter(e); after > 0 {
		attrs = append(attrs, slog.Duration("retry_after", after))
	}
	attrs = append(attrs, slog.Duration("elapsed", e.Elapsed))
	if e.Err != nil {
		attrs = append(attrs, errorAttr(e.Err))
	}
	return attrs
}

// endedByContext reports whether the context ended the call, so that no failure was
// classified.
func endedByContext(e retry.Event) bool {
	return e.Verdict == (retry.Verdict{}) && (e.Stop == retry.StopDeadline || e.Stop == retry.StopCanceled)
}

func retryAfter(e retry.Event) time.Duration {
	gaveUp, ok := e.Err.(*retry.Error) //nolint:errorlint // the call's own
	if ok && e.Kind == retry.GaveUp && gaveUp != nil {
		return gaveUp.RetryAfter
	}
	return e.Verdict.After
}

// Decision returns an attribute: a group without zero values, with the names of the messages:
//
//	retry=true delay=2s class=retryable category=http_503 limit=3 state.failures=1
//	retry=false stop=attempts class=retryable category=http_503 limit=3 error="failed after …" state.failures=3
func Decision(key string, d retry.Decision) slog.Attr {
	attrs := []any{slog.Bool("retry", d.Retry)}
	if d.Stop != retry.StopNone {
		attrs = append(attrs, slog.String("stop", d.Stop.Error()))
	}
	if d.Delay > 0 {
		attrs = append(attrs, slog.Duration("delay", d.Delay))
	}
	if d.Verdict != (retry.Verdict{}) {
		attrs = append(attrs, slog.String("class", d.Verdict.Class.String()))
	}
	if d.Verdict.Category != "" {
		attrs = append(attrs, slog.String("category", d.Verdict.Category))
	}
	if d.Verdict.Progress {
		attrs = append(attrs, slog.Bool("progress", true))
	}
	if d.Verdict.After > 0 {
		attrs = append(attrs, slog.Duration("retry_after", d.Verdict.After))
	}
	if d.Limit != 0 {
		attrs = append(attrs, slog.Int("limit", d.Limit))
	}
	if d.Err != nil {
		attrs = append(attrs, errorAttr(d.Err))
	}
	return slog.Group(key, append(attrs, State("state", d.State))...)
}

// State returns an attribute: a group with the names of the JSON form, without zero values
// and without the Key.
func State(key string, s retry.State) slog.Attr {
	var attrs []any
	for _, n := range []struct {
		key   string
		count int
	}{{"failures", s.Failures}, {"rate_limited", s.RateLimited}, {"pending", s.Pending}} {
		if n.count != 0 {
			attrs = append(attrs, slog.Int(n.key, n.count))
		}
	}
	if !s.First.IsZero() {
		attrs = append(attrs, slog.Time("first", s.First))
	}
	return slog.Group(key, attrs...)
}

// errorAttr returns the text of an error without secrets, by way of fmt, because that
// survives an Error method that panics.
func errorAttr(err error) slog.Attr { return slog.String("error", Redact(fmt.Sprint(err))) }

// Redact removes possible secrets from a text, such as the text of an error:
//
//	Get "https://example.com/login?token=***": connection refused
//	login: password=***, Authorization: Bearer ***
//
// The values of names that end like password, secret, token, api_key, Authorization or
// Cookie are replaced, in quotes, brackets, JSON, YAML, XML, forms and connection strings, and
// so are tokens and keys that say so themselves: JSON web tokens, what follows Bearer or Basic,
// private keys, keys with the prefixes of well-known services. SECURITY.md has the forms.
// Prose stays: "token expired", "password must have 8 characters", "invalid api key". Behind
// a colon and a space, a word is prose if it has no digit and no special character, and is
// short; only behind a password, the last word of a line is replaced too.
//
// In URLs, user and password are dropped, or a token in their place; the values of the
// query are replaced, and the fragment is dropped. Scheme, host and path stay, so
// a secret in a path stays too. URLs are found anywhere in the text, also in the
// path of another URL, and quoted as in the errors of net/url and net/http.
// Relative URLs with a query are found too, and user:password@host without a
// scheme. If the parts of a URL are ambiguous, Redact removes too much rather than
// too little.
//
// Of a text of more than 64 KiB, Redact returns the beginning. It does not panic, whatever the
// text is, and takes time in proportion to it. Redact(Redact(text)) is Redact(text).
func Redact(text string) string { return redact.Text(text) }

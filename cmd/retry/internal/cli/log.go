package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// The formats of --log.
const (
	logText = "text"
	logJSON = "json"
)

// log says what becomes of the runs.
type log struct {
	out      io.Writer
	name     string // of the command
	json     bool
	terminal bool   // out is one that knows escape codes, so that a wait can be counted down
	line     string // is being counted down
}

func newLog(format string, quiet bool, name string) (*log, error) {
	l := &log{out: os.Stderr, name: name}
	switch {
	case format != logText && format != logJSON:
		return nil, fmt.Errorf("--log %s: must be %s or %s", format, logText, logJSON)
	case quiet:
		l.out = io.Discard
	case format == logJSON:
		l.json = true
	default:
		// The null device passes for a terminal too, and minds nothing. A line that is
		// written again and again needs escape codes.
		info, err := os.Stderr.Stat()
		plain := os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != ""
		l.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && !plain
	}
	return l, nil
}

// attempt says how a run ended and what follows.
func (l *log) attempt(n int, err error, d retry.Decision, elapsed time.Duration) {
	var gaveUp *retry.Error
	switch {
	case l.json:
		l.record(n, err, d, elapsed)
	case err == nil, isFault(err): // a fault is said in the end, with --quiet too
	case d.Retry:
		progress := ""
		if d.Verdict.Progress {
			progress = ", counted again after progress"
		}
		l.line = fmt.Sprintf("retry: attempt %s%s: %s; again in ", ofLimit(n, d.Limit), progress, l.describe(err))
		if !l.terminal {
			fmt.Fprintf(l.out, "%s%v\n", l.line, round(d.Delay))
		}
	case d.Stop == retry.StopCanceled:
		fmt.Fprintf(l.out, "retry: ended by a signal after %s in %v: %s\n", runs(n), round(elapsed), l.describe(err))
	case errors.As(d.Err, &gaveUp):
		fmt.Fprintf(l.out, "retry: gave up (%v) after %s in %v: %s\n", d.Stop, runs(n), round(elapsed), l.describe(err))
	default:
		fmt.Fprintf(l.out, "retry: not run again (%s): %s\n", d.Verdict.Category, l.describe(err))
	}
}

// warn says what may help.
func (l *log) warn(text string) {
	if l.json {
		_ = json.NewEncoder(l.out).Encode(notice{time.Now().UTC(), "warning", plain(text), l.name})
		return
	}
	fmt.Fprintf(l.out, "retry: %s: %s\n", l.name, plain(text))
}

// notice is a line of --log json that is about no run.
type notice struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // warning
	Warning string    `json:"warning"`
	Name    string    `json:"name"` // of the command
}

// record is a line of --log json.
type record struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"` // retrying, succeeded or gave_up, as in retry.Event
	Attempt  int       `json:"attempt"`
	Progress bool      `json:"progress,omitempty"`      // attempts are counted from this one on
	Limit    int       `json:"limit,omitempty"`         // of the attempts; left out where there is none
	Delay    *float64  `json:"delay_seconds,omitempty"` // until the next one
	Class    string    `json:"class,omitempty"`
	Category string    `json:"category,omitempty"`
	Stop     string    `json:"stop,omitempty"` // why there is no next one
	Exit     *int      `json:"exit_code,omitempty"`
	Name     string    `json:"name"` // of the command
	Error    string    `json:"error,omitempty"`
	Elapsed  float64   `json:"elapsed_seconds"`
}

func (l *log) record(n int, err error, d retry.Decision, elapsed time.Duration) {
	r := record{Time: time.Now().UTC(), Event: retry.Succeeded.String(), Name: l.name, Attempt: n, Elapsed: elapsed.Seconds()}
	if err != nil {
		code := exitCode(err)
		r.Exit, r.Error, r.Category, r.Class = &code, plain(err.Error()), d.Verdict.Category, d.Verdict.Class.String()
		r.Progress = d.Verdict.Progress
		if r.Limit = d.Limit; r.Limit == retry.Unlimited {
			r.Limit = 0
		}
		if r.Event = retry.GaveUp.String(); d.Retry {
			delay := d.Delay.Seconds()
			r.Event, r.Delay = retry.Retrying.String(), &delay
		} else {
			r.Stop = d.Stop.Error()
		}
	}
	_ = json.NewEncoder(l.out).Encode(r)
}

// end says that no run follows a wait after all.
func (l *log) end() {
	if l.line != "" && l.terminal {
		fmt.Fprintln(l.out)
	}
}

// clock returns the clock that counts the waits down, or nil for the usual one.
func (l *log) clock() retry.Clock {
	if !l.terminal {
		return nil
	}
	return countdown{l}
}

// countdown is the system's clock, and shows how long a wait still is.
type countdown struct{ log *log }

// Now implements [retry.Clock].
func (countdown) Now() time.Time { return time.Now() }

// After implements [retry.Clock].
func (countdown) After(d time.Duration) <-chan time.Time { return time.After(d) }

// SleepContext is the method of a Clock that waits.
func (c countdown) SleepContext(ctx context.Context, d time.Duration) error {
	const step = 100 * time.Millisecond
	until := time.Now().Add(d)
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	wait := time.NewTimer(d)
	defer wait.Stop()
	for {
		// Back to the start of the line, of which nothing is left.
		fmt.Fprintf(c.log.out, "\r\x1b[K%s", fitting(fmt.Sprintf("%s%.1fs", c.log.line, max(time.Until(until), 0).Seconds())))
		select {
		case <-wait.C:
			fmt.Fprintf(c.log.out, "\r\x1b[K%s%v\n", c.log.line, round(d))
			c.log.line = ""
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// fitting returns the end of a line that is longer than the terminal is wide: a line that is
// wrapped cannot be written again.
func fitting(line string) string {
	width, text := columns(os.Stderr), []rune(line)
	if width < 2 || len(text) < width {
		return line
	}
	return "…" + string(text[len(text)-width+2:])
}

// describe says what has failed, and how, without the end of standard error, which has been seen.
func (l *log) describe(err error) string {
	var exit *exec.ExitError
	how := plain(err.Error())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		how = "timed out"
	case errors.As(err, &exit):
		how = exit.Error()
	}
	return l.name + ": " + how
}

// secretFlag matches flags whose value is nobody's business.
var secretFlag = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|auth|cred|user|^-[up]$`)

// shownCommand returns how lines name a command: its words without secrets, and, if they are long,
// both ends. Those that xargs runs differ at the end.
func shownCommand(args []string) string {
	const most = 60
	words := make([]string, len(args))
	for i, word := range args {
		words[i] = retryslog.Redact(plain(word))
		switch {
		case i > 0 && strings.HasPrefix(args[i-1], "-") && secretFlag.MatchString(args[i-1]):
			words[i] = "***"
		case word == "" || strings.ContainsAny(word, " '\"|&;<>()$`*?"):
			words[i] = quoted(words[i])
		}
	}
	text := []rune(strings.Join(words, " "))
	if len(text) > most {
		text = slices.Concat(text[:most/2], []rune("…"), text[len(text)-most/2:])
	}
	return string(text)
}

func ofLimit(n, limit int) string {
	if limit == retry.Unlimited {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d of %d", n, limit)
}

func runs(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// round leaves three digits or so.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit)
}

// plain returns text with escapes, as in Go, in place of line breaks and of everything else
// that is not printable. An argument or the name of a file can have characters that a
// terminal obeys, or a line that a CI takes for an order.
func plain(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(text[:size])
		} else {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// message returns the text of an error to print. The faults of a policy have a line each.
func message(err error) string {
	var invalid *retrypolicies.InvalidError
	var several interface{ Unwrap() []error }
	if !errors.As(err, &invalid) && !errors.As(err, &several) {
		return plain(err.Error())
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

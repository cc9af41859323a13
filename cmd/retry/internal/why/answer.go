package why

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// page is where the answers are explained.
const page = "docs/why.md"

// Answer is what is known about one failure.
type Answer struct {
	About   string
	Verdict retry.Verdict
	Lines   []Line
	Go      []string // what the lines have of Go

	response bool
}

// OfResponse reports whether an answer is about a response.
func OfResponse(a *Answer) bool { return a.response }

// Line is one line of an answer.
type Line struct{ Name, Text string }

func (a *Answer) add(name, format string, args ...any) {
	a.Lines = append(a.Lines, Line{name, fmt.Sprintf(format, args...)})
}

// String returns one line after the other.
func (a *Answer) String() string {
	width := 0
	for _, l := range a.Lines {
		width = max(width, len(l.Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", a.About)
	for _, l := range a.Lines {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, l.Name, l.Text)
	}
	return b.String()
}

// classify adds the class of the failure.
func (a *Answer) classify(v retry.Verdict) {
	a.Verdict = v
	text := v.Class.String()
	switch v.Class {
	case retry.Final:
		text += ": another attempt cannot help"
	case retry.Unknown:
		text += ": retried, unless the policy says otherwise"
	case retry.Retryable:
		text += ": another attempt may help"
	case retry.RateLimited:
		text += ": another attempt will help later"
	case retry.Pending:
		text += ": not ready yet"
	}
	a.add("class", "%s", text)
	if v.Category != "" {
		a.add("category", "%s", v.Category)
	}
	if v.After > 0 {
		a.add("hint", "%v", v.After)
	}
}

// outcome adds what p does after a first failure with this verdict.
func (a *Answer) outcome(name string, p *retry.Policy, v retry.Verdict, nonIdempotent bool) retry.Decision {
	asked := *p
	asked.NonIdempotent = asked.NonIdempotent || nonIdempotent
	asked.Jitter = retry.NoJitter
	now := time.Now()
	d := asked.Decide(retry.State{First: now}, v, now)
	switch {
	case !d.Retry:
		a.add(name, "not retried: %s", stopped(d.Stop, v.After))
	case v.After > 0:
		a.add(name, "retried after the hint, %v, and up to 10 %% more", d.Delay)
	default:
		low, high := p.Bounds(1)
		a.add(name, "retried after %v–%v, %d attempts in all", low, high, d.Limit)
	}
	return d
}

// stopped returns the text of an Error with this reason.
func stopped(reason retry.StopReason, hint time.Duration) string {
	if reason == retry.StopFinal {
		return "final"
	}
	s := stop{reason: reason}
	if text := s.text(); text != "" && reason != retry.StopRetryAfter {
		return text
	}
	if reason == retry.StopRetryAfter {
		return fmt.Sprintf("server asks to wait %v, which is longer than MaxRetryAfter", hint)
	}
	return reason.Error()
}

// code adds pieces of Go that change something.
func (a *Answer) code(pieces ...string) {
	for _, piece := range pieces {
		a.Go = append(a.Go, piece)
		name := "to change"
		for line := range strings.SplitSeq(piece, "\n") {
			a.add(name, "%s", line)
			name = ""
		}
	}
}

// flag adds a flag of the command that changes something.
func (a *Answer) flag(format string, args ...any) { a.add("flag", format, args...) }

func (a *Answer) see(heading string) { a.add("more", "%s#%s", page, heading) }

// Status answers about a response.
func Status(status int, header http.Header, p *retry.Policy) *Answer {
	a := &Answer{About: strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status)), response: true}
	if status < http.StatusBadRequest {
		a.add("class", "none: a status below 400 is no failure; an exit code is --exit %d", status)
		a.code(retryStatus(status))
		a.see("http-responses")
		return a
	}
	resp := &http.Response{StatusCode: status, Header: header}
	v := retryhttp.ClassifyResponse(resp, time.Now())
	v.After = v.After.Round(time.Millisecond)
	a.classify(v)
	first := a.outcome("a GET", p, v, false)
	posted := a.outcome("a POST", p, v, true)
	switch {
	case v.Class == retry.Final:
		a.code(retryStatus(status))
	case first.Stop == retry.StopRetryAfter:
		a.code("policy.MaxRetryAfter = " + literal(v.After))
		a.add("or", "docs/recipes.md#a-hint-of-hours")
	case posted.Stop == retry.StopMaybeApplied:
		a.code("transport.IdempotencyKey = retryhttp.RandomKey // for a POST, if the server knows such keys")
	}
	if v.Class != retry.Final {
		a.code(override(v.Category))
	}
	if v.Class != retry.Final && len(header) == 0 {
		a.add("to ask", "retry why %d -H 'Retry-After: 120' # with a hint", status)
	}
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		a.add("note", "for a new token: docs/recipes.md#a-token-that-is-refreshed; a second one in a row is final")
	case http.StatusConflict:
		a.add("note", "with an Idempotency-Key it is Retryable: the first request is still in progress")
	}
	a.see("http-responses")
	return a
}

// retryStatus returns code that retries responses with a status.
func retryStatus(status int) string {
	return fmt.Sprintf("transport.ClassifyResponse = func(resp *http.Response) retry.Verdict { // to retry it\n"+
		"\tif resp.StatusCode == %d {\n\t\treturn retry.Verdict{Class: retry.Retryable}\n\t}\n\treturn retry.Verdict{}\n}", status)
}

// literal returns a duration that is a little longer, as Go code.
func literal(d time.Duration) string {
	switch {
	case d > time.Hour:
		return fmt.Sprintf("%d * time.Hour", int64(d/time.Hour)+1)
	case d > time.Minute:
		return fmt.Sprintf("%d * time.Minute", int64(d/time.Minute)+1)
	default:
		return fmt.Sprintf("%d * time.Second", int64(d/time.Second)+1)
	}
}

// Exit answers about a command that has ended with a code.
func Exit(code int, stderr string, profile retryexec.Profile, p *retry.Policy) *Answer {
	a := &Answer{About: fmt.Sprintf("exit code %d", code)}
	if stderr != "" {
		a.About += " with standard error"
	}
	v := profile.ClassifyExit(nil, code, stderr)
	a.classify(v)
	a.outcome("retry", p, v, false)
	class := "retry.Retryable"
	if v.Class == retry.Final {
		a.flag("--on-exit %d # to run it again", code)
	} else {
		a.flag("--final-exit %d # not to run it again", code)
		class = "retry.Final"
	}
	a.code(fmt.Sprintf("profile = append(retryexec.Profile{{Codes: []int{%d}, Verdict: retry.Verdict{Class: %s}}}, profile...)", code, class))
	a.see("commands")
	return a
}

// SQLState answers about a SQLSTATE.
func SQLState(code string, p *retry.Policy) *Answer {
	a := &Answer{About: "SQLSTATE " + code}
	for _, s := range states {
		if s.code == code {
			a.About += ", " + s.name
		}
	}
	err := sqlStateError(code)
	v := retrysql.Classify(err)
	a.classify(v)
	if v.Class == retry.Unknown {
		a.add("InTx", "not retried: InTx retries what it knows")
	} else {
		a.outcome("InTx", p, v, false)
	}
	a.outcome("Execute", p, p.Classify(err), false)
	if v.Class == retry.Final || v.Class == retry.Unknown {
		a.code(retryIt("sql_" + code))
	} else {
		a.code(override(v.Category))
	}
	a.see("databases")
	return a
}

// Type answers about a type that nothing is known of.
func Type(name string, p *retry.Policy) *Answer {
	a := &Answer{About: clean(name)}
	a.add("class", "not known by name; if it is an error, it is asked for its methods (Retryable, RetryAfter, HTTPStatusCode, SQLState, Timeout, …)")
	a.add("", "and its field StatusCode; if none of these says anything, it is unknown: retried")
	a.outcome("Execute", p, retry.Verdict{}, false)
	a.add("Transport", "retried if the request is idempotent and the error is not net/http's own; otherwise final")
	a.code("err = retry.MarkFinal(err) // or retry.MarkRetryable", override("unknown"))
	a.add("to ask", "policy.Classify(err) in your program")
	a.see("errors")
	return a
}

func explain(s stop) *Answer {
	a := &Answer{About: strings.Join(s.texts(), "; ")}
	if a.About == "" {
		a.About = s.reason.Error()
	}
	a.add("stop", "%s", s.reason)
	a.add("meaning", "%s", plainText(s.means))
	a.code(s.change...)
	a.see("the-text-of-the-error")
	return a
}

func about(n named, p *retry.Policy) *Answer {
	a := &Answer{About: n.names[0]}
	v := retry.Classify(n.err)
	a.classify(v)
	a.outcome("Execute", p, p.Classify(n.err), false)
	for _, other := range protocols(n.err) {
		if other.verdict != v && other.verdict.Class != v.Class {
			a.add(other.name, "%s", other.verdict.Class)
		}
	}
	other, what := "Final", " // not to retry it"
	if v.Class == retry.Final {
		other, what = "Retryable", " // to retry it"
	}
	if target := sentinel(n); target != "" {
		a.code("policy.Classifier = retry.On(retry." + other + ", " + target + ")" + what)
	}
	a.code("err = retry.Mark" + other + "(err)" + what)
	if errors.Is(n.err, context.Canceled) || errors.Is(n.err, context.DeadlineExceeded) {
		a.add("note", "if your own context has ended, the call stops before it looks at the error")
	}
	if v.Category == "gave_up" {
		a.code("policy.Classifier = retry.On(retry.Retryable, retry.StopAttempts) // if their attempts may multiply")
		a.add("note", "to a stored job, what was given up counts: a job outlives a policy inside it")
	}
	a.see("errors")
	return a
}

// sentinel returns the name of n in Go if it is a variable, or "".
func sentinel(n named) string {
	for _, name := range n.names {
		if isVariable.MatchString(name) && !strings.HasPrefix(name, "codes.") {
			return name
		}
	}
	return ""
}

var isVariable = regexp.MustCompile(`^\w+\.(Err\w+|EOF|E[A-Z]+|Canceled|DeadlineExceeded)$`)

// protocol is the verdict of a package about an error.
type protocol struct {
	name    string
	verdict retry.Verdict
}

// protocols returns the opinions of the packages that know more.
func protocols(err error) []protocol {
	return []protocol{
		{"retryhttp", retryhttp.Classify(inHTTP(err))},
		{"retrysql", retrysql.Classify(err)},
		{"retryexec", retryexec.Classify(err)},
	}
}

func clean(name string) string { return strings.TrimLeft(strings.TrimSpace(name), "*&") }

// same reports whether a name is all of another, or its last part: DNSError is net.DNSError.
func same(name, of string) bool {
	name, of = strings.ToLower(name), strings.ToLower(of)
	_, last, ok := strings.Cut(of, ".")
	return name == of || ok && !strings.Contains(last, " ") && name == last
}

// findName looks for an error by one of its names.
func findName(name string) (named, bool) {
	clean := clean(name)
	for _, n := range known {
		for _, candidate := range n.names {
			if same(clean, candidate) || same(clean, "gRPC."+strings.TrimPrefix(candidate, "gRPC ")) {
				return n, true
			}
		}
	}
	return named{}, false
}

// findIn looks for the name or the text of an error within a text.
func findIn(text string) (named, bool) {
	text = strings.ToLower(text)
	for _, n := range known {
		for _, candidate := range n.names {
			if len(candidate) > len("io.EOF") && strings.Contains(text, strings.ToLower(candidate)) {
				return n, true
			}
		}
	}
	return named{}, false
}

// shaped answers about a type of a client, or returns nil.
func shaped(name string) *Answer {
	for _, s := range shapes {
		if same(clean(name), s.ends) {
			a := &Answer{About: s.ends}
			a.add("class", "as its code says")
			a.add("read by", "%s", s.read)
			a.see("errors")
			return a
		}
	}
	return nil
}

// plainText returns Markdown without its marks.
func plainText(markdown string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(markdown, "](")
		b.WriteString(before)
		if !ok {
			break
		}
		_, markdown, _ = strings.Cut(rest, ")")
	}
	return strings.NewReplacer("`", "", "[", "").Replace(b.String())
}

package why

import (
	"cmp"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// Question is what is asked: a word, a status, a header or a text, with the headers of a response.
type Question struct {
	Text   string
	Header http.Header
	Policy *retry.Policy // for all but responses
	HTTP   *retry.Policy // for responses
}

// Ask returns what is known about a question, or nil. A word may mean several things, and a text may
// have a reason and the failure before it.
func Ask(q Question) []*Answer {
	text := strings.TrimSpace(q.Text)
	if status, ok := wholeStatus(text); ok {
		return []*Answer{Status(status, q.Header, q.HTTP)}
	}
	if all := q.word(text); len(all) > 0 {
		return all
	}
	if name, value, ok := strings.Cut(text, ":"); ok && isHint(name) {
		return []*Answer{q.headerLine(textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value))}
	}
	if m := lineOfCommand.FindStringSubmatch(text); m != nil {
		if all := q.ofCommand(m[1], text); len(all) > 0 {
			return all
		}
	}
	var all []*Answer
	if s, ok := stopIn(text); ok {
		a := explain(s)
		a.About = cmp.Or(gaveUp.FindString(text), a.About)
		all = append(all, a)
	}
	return append(all, q.failure(text, len(all) > 0)...)
}

// lineOfCommand is what the command says last, with the reason or the category.
var lineOfCommand = regexp.MustCompile(`^retry: (?:not run again|gave up) \((\w+)\)`)

// flags are those of the command for the reasons that have one.
var flags = map[string]string{"attempts": "-n 5", "timeout": "-T 1h", "elapsed": "--max-elapsed 1h"}

// ofCommand answers about a line of the command with this word.
func (q *Question) ofCommand(word, text string) []*Answer {
	all := q.word(word)
	if len(all) == 0 {
		return nil
	}
	if flag := flags[word]; flag != "" {
		all[0].flag("%s", flag)
	} else if m := exitIn.FindStringSubmatch(text); m != nil {
		all[0].flag("--on-exit %s # to run it again", m[1])
	}
	return all
}

// word answers about a name alone.
func (q *Question) word(name string) []*Answer {
	var all []*Answer
	if s, ok := stopOf(name); ok {
		all = append(all, explain(s))
	}
	if status, ok := statusOf(name); ok {
		return append(all, Status(status, q.Header, q.HTTP))
	}
	all = append(all, wordAnswers(strings.ToLower(name), q.Policy)...)
	if n, ok := findName(name); ok {
		return append(all, about(n, q.Policy))
	}
	for _, a := range []*Answer{ofSentinel(name), shaped(name)} {
		if a != nil {
			return append(all, a)
		}
	}
	if isSQLState.MatchString(name) && strings.ContainsAny(name, "0123456789") {
		return append(all, SQLState(name, q.Policy))
	}
	all = append(all, q.ofNumber(name)...)
	if a := q.ofService(name); a != nil && len(all) == 0 {
		return []*Answer{a}
	}
	return all
}

var (
	isSQLState = regexp.MustCompile(`^[0-9A-Z]{5}$`)
	sqlStateIn = regexp.MustCompile(`(?i)\bSQLSTATE[ :=]+([0-9A-Z]{5})\b|\b([0-9]{2}P[0-9]{2})\b`)
	exitIn     = regexp.MustCompile(`\bexit(?:ed with)? (?:status|code) ([0-9]{1,3})\b`)
	wordIn     = regexp.MustCompile(`\(([a-z]+)\)|\b(?:category|class|stop|event|outcome)"?[=:] ?"?(\w+)|(\bretry\.Stop\w+|` +
		`[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b)`)
)

// failure answers about the failure in a text. Its end says more than its beginning.
func (q *Question) failure(text string, stopped bool) []*Answer {
	if m := sqlStateIn.FindStringSubmatch(text); m != nil {
		return []*Answer{SQLState(strings.ToUpper(cmp.Or(m[1:]...)), q.Policy)}
	}
	if all := q.pasted(text); len(all) > 0 {
		return all
	}
	if status, ok := statusIn(text); ok {
		return []*Answer{Status(status, q.Header, q.HTTP)}
	}
	if n, ok := findIn(text); ok {
		return []*Answer{about(n, q.Policy)}
	}
	if m := exitIn.FindStringSubmatch(text); m != nil {
		if code, _ := strconv.Atoi(m[1]); code > 0 {
			return []*Answer{Exit(code, text, retryexec.Default(), q.Policy)}
		}
	}
	if !stopped {
		if a := ofText(text); a != nil {
			return []*Answer{a}
		}
	}
	var all []*Answer
	for _, m := range wordIn.FindAllStringSubmatch(text, -1) {
		for _, a := range q.word(cmp.Or(m[1:]...)) {
			if !slices.ContainsFunc(all, func(b *Answer) bool { return a.About == b.About }) {
				all = append(all, a)
			}
		}
	}
	if a := q.asStandardError(text); len(all) == 0 && !stopped && a != nil {
		return []*Answer{a}
	}
	return all
}

// isHint reports whether a header says something about retries.
func isHint(name string) bool {
	name = strings.ToLower(name)
	return name == "retry-after" || strings.Contains(name, "should-retry") || strings.Contains(name, "ratelimit") ||
		strings.Contains(name, "rate-limit") || strings.HasPrefix(name, "retry-after-") || strings.HasPrefix(name, "x-ms-retry-after")
}

// headerLine answers about a header, as one of a response with status 429.
func (q *Question) headerLine(name, value string) *Answer {
	header := q.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Add(name, value)
	a := Status(http.StatusTooManyRequests, header, q.HTTP)
	a.About = name + ": " + value + ", of a response with status 429"
	switch at, err := http.ParseTime(value); {
	case a.Verdict.After > 0:
	case err == nil && at.Before(time.Now()):
		a.add("note", "there is no hint in it: its time passed %v ago", time.Since(at).Round(time.Second))
	default:
		a.add("note", "there is no hint in it: it is no number of seconds above 0 and no date, or needs another header")
	}
	a.add("to ask", "retry why 503 -H '%s: %s'", name, value)
	return a
}

// wholeStatus returns the HTTP status that a text is, with or without its name.
func wholeStatus(text string) (int, bool) {
	number, name, _ := strings.Cut(text, " ")
	status, err := strconv.Atoi(number)
	ok := err == nil && len(number) == len("503") && status >= 100 && status <= 599 &&
		(name == "" || strings.EqualFold(name, http.StatusText(status)))
	return status, ok
}

// statusOf returns the HTTP status of a category.
func statusOf(category string) (int, bool) {
	code, ok := strings.CutPrefix(strings.ToLower(category), "http_")
	if !ok {
		return 0, false
	}
	return wholeStatus(code)
}

// statusIn returns an HTTP status that a text has with its name.
func statusIn(text string) (int, bool) {
	for status := 400; status < 600; status++ {
		if name := http.StatusText(status); name != "" && strings.Contains(text, strconv.Itoa(status)+" "+name) {
			return status, true
		}
	}
	if m := statusWords.FindStringSubmatch(text); m != nil {
		return wholeStatus(cmp.Or(m[1:]...))
	}
	return 0, false
}

// stopOf returns the reason with a name.
func stopOf(name string) (stop, bool) {
	name = strings.ToLower(strings.TrimPrefix(name, "retry."))
	for _, s := range stops {
		if name == s.reason.Error() || name == "stop"+strings.ReplaceAll(s.reason.Error(), "_", "") {
			return s, true
		}
	}
	return stop{}, false
}

// gaveUp is what an Error says first, and its reason.
var gaveUp = regexp.MustCompile(`failed after [0-9]+ attempts?( \([^)]*\))?`)

// stopIn returns the reason whose text is in another.
func stopIn(text string) (stop, bool) {
	text = strings.ToLower(text)
	if m := gaveUp.FindStringSubmatch(text); m != nil {
		if text = m[1]; text == "" {
			return stops[0], true
		}
	}
	for _, s := range stops {
		if strings.Contains(text, "gave up ("+s.reason.Error()+")") {
			return s, true
		}
		for _, part := range s.texts() {
			part, _, _ = strings.Cut(part, "3h0m0s")
			part, _, _ = strings.Cut(part, "http_404")
			if strings.Contains(text, strings.TrimSpace(strings.ToLower(part))) {
				return s, true
			}
		}
	}
	return stop{}, false
}

package tablepage

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	_ "embed" // of the page's files
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/redact"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Page is the handler. It must not be copied or changed after its first use.
type Page struct {
	Tables []Table // see [Of]; their names must differ

	// Allow, if not nil, says whether a request may do something. It is asked for each button that
	// is shown, and again when the button is pressed. Without it nothing can be changed. A request from another
	// origin changes nothing, whatever Allow says. If a browser can reach the page by a name that is
	// not yours, as at a loopback address, let Allow check r.Host.
	Allow func(r *http.Request, action Action) bool

	mu   sync.Mutex
	away map[Table]time.Time // since when a database does not answer
}

// Action is what somebody wants to do.
type Action struct {
	Table string // its Name
	Do    string // one of the constants
}

// What can be done: the methods of [retrytable.Table] with these names.
const (
	TryAgain = "try again"
	End      = "end"
	GiveBack = "give back"
	PutOff   = "put off"
	TakeOver = "take over"
)

// operations are what can be done, and with jobs of which states.
var operations = []struct {
	do   string
	with retrytable.Status
}{
	{TryAgain, retrytable.Dead | retrytable.Waiting},
	{PutOff, retrytable.Ready | retrytable.Waiting},
	{GiveBack, retrytable.Running},
	{TakeOver, retrytable.Running},
	{End, retrytable.Ready | retrytable.Waiting | retrytable.Running},
}

// statusFor are the states of the jobs with which something can be done; 0 if it is nothing.
func statusFor(do string) retrytable.Status {
	for _, o := range operations {
		if o.do == do {
			return o.with
		}
	}
	return 0
}

const (
	patience  = 5 * time.Second // with the database, for a look
	longest   = 5 * time.Minute // for an operation
	mostAsked = 1000            // jobs that are counted for a question
	mostBody  = 64 << 10

	// Nothing from elsewhere, and nothing that stands in the page itself.
	csp = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed style.css
	styleCSS []byte
	//go:embed live.js
	liveJS []byte

	pages = template.Must(template.New("page").Funcs(template.FuncMap{
		"id": format, "text": text, "lines": lines, "distance": distance, "at": at, "number": number,
	}).Parse(pageHTML))
)

// sameOrigin refuses what another site has a browser send.
var sameOrigin = http.NewCrossOriginProtection()

// problem is an error for the reader.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func refuse(code int, format string, args ...any) error {
	return &problem{code, fmt.Sprintf(format, args...)}
}

// view is what the template shows.
type view struct {
	Title, Problem string
	Tables         []overview // of the first screen
	Table          Table      // of all other screens
	List           *list
	Job            *job
	Question       *question
	Done           string // the jobs that were changed
	Filter         filter
	Can            []string // what may be done with the jobs that are shown
}

// Words are the states that can be asked for.
func (view) Words() []retrytable.Status { return words }

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch r.URL.Query().Get("file") {
	case "style":
		h.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(styleCSS)
		return
	case "live":
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(liveJS)
		return
	}
	v := view{Title: "Jobs"}
	err := sameOrigin.Check(r)
	switch {
	case err != nil:
		err = refuse(http.StatusForbidden, "This request comes from another site, so it changes nothing.")
	case r.Method == http.MethodPost:
		var to string
		if to, err = p.act(w, r); err == nil {
			h.Set("Location", to) // relative to the address that the browser knows
			w.WriteHeader(http.StatusSeeOther)
			return
		}
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		err = p.look(r, &v)
	default:
		h.Set("Allow", "GET, HEAD, POST")
		err = refuse(http.StatusMethodNotAllowed, "A request can only GET and POST here.")
	}
	p.show(w, r, &v, err)
}

// show writes the page, and instead of a part that is missing its error.
func (p *Page) show(w http.ResponseWriter, r *http.Request, v *view, err error) {
	code := http.StatusOK
	if err != nil {
		v.List, v.Job, v.Question = nil, nil, nil
		code, v.Problem = p.told(r, v.Table, err)
	}
	for i := range v.Tables {
		o := &v.Tables[i]
		var one int
		if one, o.Problem = p.told(r, o.Table, o.err); o.err != nil {
			code = max(code, one)
		}
	}
	var page bytes.Buffer
	if err := pages.Execute(&page, v); err != nil { // nothing of it was sent
		slog.Default().ErrorContext(r.Context(), "retrytable page", "error", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = page.WriteTo(w)
}

// told is the status code and the text of an error of a table. It remembers since when its
// database does not answer, unless the reader has not waited for the answer.
func (p *Page) told(r *http.Request, t Table, err error) (code int, shown string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var known *problem
	switch {
	case errors.As(err, &known):
		return known.code, text(known.text)
	case err == nil:
		delete(p.away, t)
		return http.StatusOK, ""
	case errors.Is(err, sql.ErrNoRows):
		return http.StatusNotFound, "There is no such job."
	case errors.Is(err, retrytable.ErrTable):
		return http.StatusInternalServerError, redact.Cut(err.Error(), 2000)
	case isOfRequest(retry.Classify(err)):
		return http.StatusBadRequest, text(err.Error())
	}
	if p.away == nil {
		p.away = map[Table]time.Time{}
	}
	since, ok := p.away[t]
	if !ok {
		since = time.Now()
	}
	if r.Context().Err() == nil {
		p.away[t] = since
	}
	return http.StatusServiceUnavailable, fmt.Sprintf("The database does not answer as it should, since %s: %s", at(since), text(err.Error()))
}

// isOfRequest reports whether an error is about what was asked: it was refused without asking the
// database, or is about a value.
func isOfRequest(v retry.Verdict) bool {
	return v.Class == retry.Final && (v.Category == "" || strings.HasPrefix(v.Category, "sql_22"))
}

// look fills v with what a request wants to see.
func (p *Page) look(r *http.Request, v *view) (err error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	query := r.URL.Query()
	if n, err := strconv.ParseInt(query.Get("changed"), 10, 64); err == nil {
		v.Done = number(n, "job") + " changed."
	}
	if !query.Has("table") {
		v.Tables = make([]overview, len(p.Tables))
		var all sync.WaitGroup
		for i, t := range p.Tables {
			all.Go(func() { v.Tables[i] = t.overview(ctx) })
		}
		all.Wait()
		return nil
	}
	if v.Table, v.Filter, err = p.asked(query); err != nil {
		return err
	}
	v.Title = v.Table.Name()
	switch do := query.Get("do"); {
	case do != "":
		if err := p.mayDo(r, v.Table, do); err != nil {
			return err
		}
		v.Question, err = ask(ctx, v.Table, do, v.Filter)
	case v.Filter.ID != "":
		if v.Job, err = v.Table.find(ctx, v.Filter); err == nil {
			p.offer(r, v, v.Job.can)
		}
	default:
		if v.List, err = v.Table.list(ctx, v.Filter, 0); err == nil {
			p.offer(r, v, doable(v.Filter.Status))
		}
	}
	if err == nil {
		_, _ = p.told(r, v.Table, nil)
	}
	return err
}

// doable is what can be done with jobs of these states.
func doable(status retrytable.Status) (all []string) {
	for _, o := range operations {
		if status != 0 && status&^o.with == 0 {
			all = append(all, o.do)
		}
	}
	return all
}

// offer shows the buttons for what may be done.
func (p *Page) offer(r *http.Request, v *view, can []string) {
	for _, do := range can {
		if p.mayDo(r, v.Table, do) == nil {
			v.Can = append(v.Can, do)
		}
	}
}

func (p *Page) mayDo(r *http.Request, t Table, do string) error {
	if statusFor(do) == 0 {
		return refuse(http.StatusBadRequest, "%s: there is no such operation.", show.Quote(do))
	}
	if p.Allow == nil || !p.Allow(r, Action{t.Name(), do}) {
		return refuse(http.StatusForbidden, "You may not %s jobs here.", do)
	}
	return nil
}

// asked is the table and the filter of a request.
func (p *Page) asked(query url.Values) (Table, filter, error) {
	name := query.Get("table")
	for _, t := range p.Tables {
		if t.Name() == name {
			f, err := filterOf(query)
			return t, f, err
		}
	}
	return nil, filter{}, refuse(http.StatusNotFound, "There is no table %s.", show.Quote(name))
}

// act does what a button says, and returns where to go then.
func (p *Page) act(w http.ResponseWriter, r *http.Request) (to string, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	if err := r.ParseForm(); err != nil {
		return "", refuse(http.StatusBadRequest, "The form cannot be read.")
	}
	t, f, err := p.asked(r.PostForm)
	if err != nil {
		return "", err
	}
	do := r.PostForm.Get("do")
	if err := p.mayDo(r, t, do); err != nil {
		return "", err
	}
	within, err := time.ParseDuration(cmp.Or(r.PostForm.Get("within"), "0s"))
	if err != nil || within < 0 {
		return "", refuse(http.StatusBadRequest, "%s: is no time.", show.Quote(r.PostForm.Get("within")))
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	n, err := t.do(ctx, do, f, within, r.PostForm.Get("reason"))
	slog.Default().InfoContext(ctx, "retrytable page", "table", t.Name(), "do", do, "changed", n, "error", err)
	if err != nil {
		if n > 0 {
			err = fmt.Errorf("%d jobs were changed before this error: %w", n, err)
		}
		return "", err
	}
	back := f.query(t.Name())
	back.Set("changed", strconv.FormatInt(n, 10))
	return "?" + back.Encode(), nil
}

// question is asked before jobs are changed.
type question struct {
	Do    string
	Jobs  string // how many
	Every bool   // nothing narrows them
	Query url.Values
}

// Back is the address of the jobs.
func (q *question) Back() string { return "?" + q.Query.Encode() }

func ask(ctx context.Context, t Table, do string, f filter) (*question, error) {
	if f.Status == 0 {
		f.Status = statusFor(do)
	}
	found, err := t.list(ctx, f, mostAsked)
	if err != nil {
		return nil, err
	}
	q := &question{Do: do, Jobs: number(int64(found.N), "job"), Query: f.query(t.Name())}
	if found.Next != "" || found.Partial {
		q.Jobs = fmt.Sprintf("%d jobs or more", found.N)
	}
	if q.Every = f.ID == "" && f.Kind == "" && f.Category == "" && f.Error == ""; q.Every {
		q.Query.Set("all", "1")
	}
	return q, nil
}

func number(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

// text is a text of a stranger in one line, without secrets, and not too long.
func text(s string) string { return show.Text(redact.Text(s[:min(len(s), 4096)])) }

// lines are those of a longer value.
func lines(value any) []string {
	const most = 40
	s := "NULL"
	if value != nil {
		s = fmt.Sprint(value)
	}
	all := strings.SplitN(strings.TrimSpace(redact.Cut(strings.ToValidUTF8(s[:min(len(s), 16<<10)], "\uFFFD"), 4096)), "\n", most+1)
	if len(all) > most {
		all[most] = "…"
	}
	for i, line := range all {
		all[i] = show.Escape(strings.ReplaceAll(line, "\t", "    "))
	}
	return all
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// distance is how far an instant is from an earlier one.
func distance(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

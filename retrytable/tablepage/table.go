package tablepage

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Table is a table that a [Page] shows. [Of] returns one.
type Table interface {
	// Name is that of the table.
	Name() string

	overview(ctx context.Context) overview
	list(ctx context.Context, f filter, limit int) (*list, error)
	find(ctx context.Context, f filter) (*job, error)
	do(ctx context.Context, do string, f filter, within time.Duration, reason string) (int64, error)
}

// Of is the table of a Worker. Of the Worker it needs the Table and the DB, and to show the
// policies also Policy and PolicyFor. The Worker need not run: a literal will do.
func Of[ID any](w *retrytable.Worker[ID]) Table { return table[ID]{w} }

type table[ID any] struct{ *retrytable.Worker[ID] }

func (t table[ID]) Name() string { return t.Table.Name }

// filter is what a request says of jobs. Its texts are as they came.
type filter struct {
	ID, Kind, Category, Error, After string
	Status                           retrytable.Status
	All                              bool
}

// words are the names of the states that can be asked for.
var words = []retrytable.Status{
	retrytable.Ready, retrytable.Waiting, retrytable.Running, retrytable.Done, retrytable.Dead,
	retrytable.Ready | retrytable.Waiting, retrytable.Dead | retrytable.Waiting,
	retrytable.Ready | retrytable.Waiting | retrytable.Running,
}

// anyLine is for the error of a filter, because a form changes the ends of lines.
var anyLine = strings.NewReplacer("\r\n", "*", "\r", "*", "\n", "*")

func filterOf(query url.Values) (f filter, err error) {
	f = filter{
		ID: query.Get("id"), Kind: query.Get("kind"), Category: query.Get("category"), Error: anyLine.Replace(query.Get("error")),
		After: query.Get("after"), All: query.Get("all") == "1",
	}
	if word := query.Get("status"); word != "" {
		i := slices.IndexFunc(words, func(s retrytable.Status) bool { return s.String() == word })
		if i < 0 {
			return f, refuse(http.StatusBadRequest, "%s: is no status.", show.Quote(word))
		}
		f.Status = words[i]
	}
	return f, nil
}

// query is a filter in an address, without the page.
func (f filter) query(table string) url.Values {
	query := url.Values{"table": {table}}
	for name, value := range map[string]string{
		"id": f.ID, "kind": f.Kind, "category": f.Category, "error": f.Error, "status": f.Status.String(),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Link is an address with one more parameter.
func (f filter) Link(table, name, value string) string {
	query := f.query(table)
	query.Set(name, value)
	return "?" + query.Encode()
}

// jobs are those of a filter.
func (t table[ID]) jobs(f filter) (jobs retrytable.Jobs[ID], err error) {
	jobs = retrytable.Jobs[ID]{Status: f.Status, Category: f.Category, Error: f.Error, All: f.All}
	if f.Kind != "" {
		jobs.Kinds = []string{f.Kind}
	}
	if f.ID != "" {
		id, err := parse[ID](f.ID)
		if err != nil {
			return jobs, err
		}
		jobs.IDs = []ID{id}
	}
	if f.After != "" {
		id, err := parse[ID](f.After)
		if err != nil {
			return jobs, err
		}
		jobs.After = &id
	}
	return jobs, nil
}

// parse reads an ID as the driver would. One that is bytes is in hexadecimal.
func parse[ID any](text string) (ID, error) {
	var id sql.Null[ID]
	var value any = text
	var err error
	if isBytes[ID]() {
		value, err = hex.DecodeString(text)
	}
	if err == nil {
		err = id.Scan(value)
	}
	if err != nil {
		return id.V, refuse(http.StatusBadRequest, "%s: is no ID of this table, whose IDs are of the type %T.", show.Quote(text), id.V)
	}
	return id.V, nil
}

func isBytes[ID any]() bool {
	var id ID
	value, err := driver.DefaultParameterConverter.ConvertValue(id)
	_, bytes := value.([]byte)
	return err == nil && bytes
}

func format(id any) string {
	value, err := driver.DefaultParameterConverter.ConvertValue(id)
	if err != nil {
		return fmt.Sprint(id)
	}
	if bytes, ok := value.([]byte); ok {
		return hex.EncodeToString(bytes)
	}
	return fmt.Sprint(value)
}

// list is a page of jobs.
type list struct {
	Jobs    any // records with IDs of some type
	N       int
	Next    string
	Partial bool
}

func (t table[ID]) list(ctx context.Context, f filter, limit int) (*list, error) {
	jobs, err := t.jobs(f)
	if err != nil {
		return nil, err
	}
	jobs.Limit = limit
	page, err := t.Table.List(ctx, t.DB, jobs)
	if err != nil {
		return nil, err
	}
	l := &list{Jobs: page.Jobs, N: len(page.Jobs), Partial: page.Partial}
	if page.Next != nil {
		l.Next = format(*page.Next)
	}
	return l, nil
}

// job is one job whole.
type job struct {
	Record any
	Fields []retrytable.Field
	Policy *policy

	can []string // what can be done with it
}

func (t table[ID]) find(ctx context.Context, f filter) (*job, error) {
	jobs, err := t.jobs(f)
	if err != nil {
		return nil, err
	}
	r, fields, err := t.Table.Find(ctx, t.DB, jobs.IDs[0])
	if err != nil {
		return nil, err
	}
	can := doable(r.Status)
	if !r.Lease.IsZero() {
		can = slices.DeleteFunc(can, func(do string) bool { return do == TakeOver })
	}
	return &job{r, fields, t.policy(r.Kind), can}, nil
}

// overview is what the first screen shows of a table.
type overview struct {
	Table    Table
	Problem  string
	States   []retrytable.Count
	Counts   retrytable.Counts
	Failures []failure
	More     bool // there are more failures
	Policies []*policy

	err error
}

type failure struct {
	Category, Error, Link string
	N                     int
	Example               any // its ID
}

const (
	mostGroups = 20
	mostKinds  = 20
)

func (t table[ID]) overview(ctx context.Context) (o overview) {
	o.Table = t
	if o.Counts, o.err = t.Table.Counts(ctx, t.DB, 0); o.err != nil {
		return o
	}
	for _, status := range []retrytable.Status{retrytable.Ready, retrytable.Waiting, retrytable.Running, retrytable.Dead, retrytable.Done} {
		n, more := o.Counts.Of(status)
		o.States = append(o.States, retrytable.Count{Status: status, N: n, More: more})
	}
	groups, more, err := t.Table.Failures(ctx, t.DB, retrytable.Jobs[ID]{})
	o.err, o.More = err, more || len(groups) > mostGroups
	for _, g := range groups[:min(len(groups), mostGroups)] {
		f := filter{Status: retrytable.Dead, Category: g.Category, Error: g.Error}
		if text(f.Category) != f.Category { // an address must not have what the page hides
			f.Category = ""
		}
		o.Failures = append(o.Failures, failure{g.Category, g.Error, "?" + f.query(t.Name()).Encode(), g.N, g.Example.ID})
	}
	var kinds []string
	for _, c := range o.Counts.Jobs {
		if !slices.Contains(kinds, c.Kind) && len(kinds) < mostKinds {
			kinds = append(kinds, c.Kind)
		}
	}
	for _, kind := range kinds {
		o.Policies = append(o.Policies, t.policy(kind))
	}
	return o
}

// policy is what is done about the failures of a kind.
type policy struct {
	Kind, Text, Problem string
	Waits               []string
	Quota               *retryquota.Status
}

const (
	mostWaits     = 12
	usualAttempts = 3 // of the zero Policy
)

func (t table[ID]) policy(kind string) *policy {
	shown := &policy{Kind: kind}
	err := engine.Guard("a function of the program", func() error {
		p, err := retryjob.PolicyFor(kind, t.Policy, t.PolicyFor)
		if err != nil {
			return err
		}
		shown.fill(cmp.Or(p, &retry.Policy{}))
		return nil
	})
	if err != nil {
		shown.Problem = err.Error()
	}
	return shown
}

func (shown *policy) fill(p *retry.Policy) {
	shown.Text = p.String()
	attempts := p.MaxAttempts
	if attempts <= 0 {
		attempts = usualAttempts
	}
	for n := 1; n <= min(mostWaits, attempts-1); n++ {
		low, high := p.Bounds(n)
		wait := low.Round(time.Millisecond).String()
		if high > low {
			wait += " to " + high.Round(time.Millisecond).String()
		}
		shown.Waits = append(shown.Waits, wait)
	}
	if q, ok := p.Quota.(*retryquota.Quota); ok {
		status := q.Status(p)
		shown.Quota = &status
	}
}

func (t table[ID]) do(ctx context.Context, do string, f filter, within time.Duration, reason string) (int64, error) {
	jobs, err := t.jobs(f)
	if err != nil {
		return 0, err
	}
	switch do {
	case TryAgain:
		return t.Table.TryAgain(ctx, t.DB, jobs, retrytable.Again{Spread: within})
	case PutOff:
		return t.Table.PutOff(ctx, t.DB, jobs, time.Now().Add(within))
	case GiveBack:
		return t.Table.GiveBack(ctx, t.DB, jobs)
	case TakeOver:
		return t.Table.TakeOver(ctx, t.DB, jobs)
	default:
		how := retrytable.Ending{Error: strings.TrimSpace(reason)}
		if t.Table.Columns.Error == "" {
			how.Error = ""
		}
		return t.Table.End(ctx, t.DB, jobs, how)
	}
}

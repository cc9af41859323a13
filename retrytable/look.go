package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/redact"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Record is a job as it is stored. An instant that is not stored is zero.
type Record[ID any] struct {
	ID       ID
	Status   Status
	Word     string // of the status column
	Kind     string
	Category string // of the last failure
	Error    string // text of the last failure; its first 2048 characters

	Attempts    int // of Columns.Attempts or Columns.Retries
	RateLimited int
	Pending     int
	Fence       int64

	Due, Lease, First, Ended time.Time
	Now                      time.Time // by the clock of the database
}

// Page is what [Table.List] returns.
type Page[ID any] struct {
	Jobs []Record[ID] // the newest first, by their IDs

	// Next is the ID after which the next page begins: pass it as Jobs.After. nil means that
	// there are no more. A page may have fewer jobs than the Limit, or none, and a Next
	// nevertheless: then the next page looks further.
	Next *ID

	// Partial is true if there are jobs that no page has: of those that are Ready, Waiting or
	// Running, only the 5000 that are due first, or whose leases end first, are looked at.
	Partial bool
}

const (
	usualPage = 50
	mostSeen  = 5000
	longText  = 2048
)

// List returns a page of jobs. The order is stable, and so are the pages, while jobs change.
//
// It looks at 5000 rows at most, which takes some milliseconds however large the table is: at the
// dead rows if Status is Dead, at those that are due first if Status is Ready or Waiting or both, at the
// running ones if it is Running, and at all rows otherwise, the newest first by their IDs. Waiting jobs
// without a due time, in MySQL or with an OrderBy, are found among the newest rows only, and so are in
// MySQL Running ones without a lease. The args belong to Jobs.Where.
func (t *Table[ID]) List(ctx context.Context, db DB, jobs Jobs[ID], args ...any) (page Page[ID], err error) {
	return t.list(ctx, db, "list", jobs, cmp.Or(jobs.Limit, usualPage), longText, args)
}

const everyStatus = Ready | Waiting | Running | Done | Dead | Other

func (t *Table[ID]) list(
	ctx context.Context, db DB, name string, jobs Jobs[ID], limit, text int, args []any,
) (page Page[ID], err error) {
	s, err := t.sql()
	if err != nil {
		return page, err
	}
	f, err := jobs.filter(s, name, everyStatus, args)
	if err != nil || jobs.IDs != nil && len(jobs.IDs) == 0 {
		return page, err
	}
	l := sqltable.Listing{Filter: f, Name: name, Limit: limit, Looked: max(mostSeen, limit), Text: text}
	if l.Status == sqltable.Status(everyStatus) {
		l.Status = 0
	}
	if jobs.After != nil {
		l.After = *jobs.After
	}
	found, err := sqltable.List(ctx, db, s, l, func(rows *sql.Rows) (Record[ID], error) { return scanRecord[ID](rows, s) })
	if err != nil {
		return page, t.explained(ctx, db, err)
	}
	page.Jobs, page.Partial = found.Rows, found.Partial
	if len(page.Jobs) > limit {
		page.Jobs = page.Jobs[:limit]
		page.Next = &page.Jobs[limit-1].ID
	} else if id, ok := found.Last.(ID); ok && !page.Partial {
		page.Next = &id
	}
	return page, nil
}

func scanRecord[ID any](rows *sql.Rows, s *sqltable.Statements) (r Record[ID], err error) {
	var word, kind, category, text sql.NullString
	var first, ended, due, lease, now sql.NullInt64
	var hasDue bool
	err = rows.Scan(&r.ID, &r.Fence, &word, &hasDue, &r.Attempts, &r.RateLimited, &r.Pending,
		&first, &ended, &due, &lease, &kind, &category, &text, &now)
	r.Status = Status(s.StatusOf(word.String, hasDue))
	r.Word, r.Kind, r.Category, r.Error = word.String, kind.String, category.String, text.String
	r.First, r.Ended, r.Due, r.Lease = sqltable.Instant(first), sqltable.Instant(ended), sqltable.Instant(due), sqltable.Instant(lease)
	r.Now = sqltable.Instant(now)
	return r, err
}

// Field is a column of a row, and what it has, as the driver returns it. Texts are strings.
type Field struct {
	Name  string
	Value any
}

// Find returns one job with all columns of its row, also those of which the Table knows nothing. If
// there is none, the error is [sql.ErrNoRows].
func (t *Table[ID]) Find(ctx context.Context, db DB, id ID) (r Record[ID], fields []Field, err error) {
	page, err := t.list(ctx, db, "find", Jobs[ID]{IDs: []ID{id}}, 1, longText, nil)
	if err != nil {
		return r, nil, err
	}
	if len(page.Jobs) == 0 {
		return r, nil, fmt.Errorf("retrytable: find: there is no such job: %w", sql.ErrNoRows)
	}
	names, values, err := t.statements.Whole(ctx, db, id)
	if err != nil {
		return r, nil, t.explained(ctx, db, fmt.Errorf("retrytable: find: %w", err))
	}
	for i, name := range names {
		if bytes, ok := values[i].([]byte); ok {
			values[i] = string(bytes)
		}
		fields = append(fields, Field{name, values[i]})
	}
	return page.Jobs[0], fields, nil
}

// Count is how many jobs have the same state, word and kind.
type Count struct {
	Status Status
	Word   string // of the status column
	Kind   string // the first 200 characters
	N      int
	More   bool // there may be more than N
}

// Counts are the jobs of a table at one moment.
type Counts struct {
	Jobs []Count // in the order of Status, Word and Kind

	// Oldest is when the job was due that has been due for longest, and Next is when the next one
	// will be. They are zero if there is none. In a table with an OrderBy they are about retries.
	Oldest, Next time.Time

	Now time.Time // by the clock of the database
}

// Lag is how long the job has been due that has been due for longest.
func (c *Counts) Lag() time.Duration {
	if c.Oldest.IsZero() {
		return 0
	}
	return max(c.Now.Sub(c.Oldest), 0)
}

// Of is how many jobs have one of the states, and whether there may be more.
func (c *Counts) Of(status Status) (n int, more bool) {
	for _, one := range c.Jobs {
		if one.Status&status != 0 {
			n, more = n+one.N, more || one.More
		}
	}
	return n, more
}

// Counts counts jobs by their states and kinds. It looks at up to most rows of each index and at
// as many of the newest rows, by their IDs; most is 5000 if it is 0. So a table of up to most rows is counted
// exactly. In a larger one, what may be more says so; of the jobs that are Done, only those among
// the newest rows are counted.
func (t *Table[ID]) Counts(ctx context.Context, db DB, most int) (c Counts, err error) {
	s, err := t.sql()
	if err != nil {
		return c, err
	}
	if most < 0 {
		return c, refused("counts: most: %d: must not be negative", most)
	}
	tallies, err := s.Counts(ctx, db, cmp.Or(most, usualMost))
	if err != nil {
		return c, t.explained(ctx, db, err)
	}
	for _, one := range tallies {
		c.Jobs = append(c.Jobs, Count{Status(one.Status), one.Word, one.Kind, one.N, one.More})
	}
	times, err := s.Times(ctx, db)
	c.Oldest, c.Next, c.Now = times.Oldest, times.Next, times.Now
	return c, t.explained(ctx, db, err)
}

const usualMost = 5000

// Failure is a group of jobs whose last failures look alike.
type Failure[ID any] struct {
	Category string
	Error    string // the beginning of the text, as Jobs.Error takes it: what differs, or is secret, is *
	N        int
	Example  Record[ID] // the newest, by its ID; its Error has 300 characters
}

// Failures groups jobs by their category and error text, the largest group first. They are those
// that are Dead, unless jobs says otherwise. It looks at the Limit of jobs, 2000 if that is 0, the newest first by
// their IDs; more says that there are others. Texts that differ in numbers and names of random
// characters are alike.
func (t *Table[ID]) Failures(ctx context.Context, db DB, jobs Jobs[ID], args ...any) (groups []Failure[ID], more bool, err error) {
	if jobs.Status == 0 {
		jobs.Status = Dead
	}
	page, err := t.list(ctx, db, "failures", jobs, cmp.Or(jobs.Limit, mostGrouped), groupedText, args)
	if err != nil {
		return nil, false, err
	}
	type key struct{ category, pattern string }
	places, shown := map[key]int{}, map[string]string{}
	for _, r := range page.Jobs {
		alike := pattern(r.Error)
		if _, ok := shown[alike]; !ok {
			shown[alike] = redact.Text(alike)
		}
		k := key{r.Category, shown[alike]}
		i, ok := places[k]
		if !ok {
			i = len(groups)
			places[k] = i
			groups = append(groups, Failure[ID]{Category: k.category, Error: k.pattern, Example: r})
		}
		groups[i].N++
	}
	slices.SortStableFunc(groups, func(a, b Failure[ID]) int { return cmp.Compare(b.N, a.N) })
	return groups, page.Next != nil || page.Partial, nil
}

const (
	mostGrouped = 2000
	groupedText = 300
)

// pattern is a text with * for what differs between failures that are alike: numbers, addresses,
// UUIDs, and words of 6 characters with a digit. Codes of errors stay.
func pattern(text string) string {
	cut := len(text) >= groupedText
	if cut {
		if end := strings.LastIndexAny(text, " \n"); end > 0 { // no part of a word
			text = text[:end]
		}
	}
	var b strings.Builder
	var before, gap string // the word before, and what stands between
	differed := false      // that word
	for text != "" {
		word, after := split(text, true)
		next, rest := split(after, false)
		dotted := isNumber(word) && (gap == "." && isNumber(before) || next == "." && rest != "" && isNumber(rest[:1]))
		switch differs := differed && isJoint(gap) || dotted || isRandom(word) && !slices.Contains(beforeCodes, strings.ToLower(before)); {
		case !differs:
			b.WriteString(gap + word)
			differed = false
		case !differed:
			b.WriteString(gap + "*")
			differed = true
		}
		before, gap, text = word, next, rest
	}
	b.WriteString(gap)
	if cut {
		b.WriteString("*")
	}
	return b.String()
}

// beforeCodes are words before the number of an error.
var beforeCodes = []string{"sqlstate", "error", "status", "code"}

// split cuts a text after the characters of a word with which it begins, or after others.
func split(text string, word bool) (head, tail string) {
	tail = strings.TrimLeftFunc(text, func(r rune) bool {
		return (r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') == word
	})
	return text[:len(text)-len(tail)], tail
}

func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

func isJoint(gap string) bool { return gap == "." || gap == ":" || gap == "-" }

func isRandom(word string) bool {
	return len(word) >= 6 && strings.ContainsAny(word, "0123456789") || len(word) >= 4 && isNumber(word)
}

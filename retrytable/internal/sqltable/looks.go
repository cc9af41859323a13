package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tally is how many rows have the same word, due time or none, and kind.
type Tally struct {
	Status     Status
	Word, Kind string
	N          int
	More       bool // there may be more than N

	part      int  // where they were found
	mine      bool // Where has them
	unindexed bool // no index has such rows
}

// Counts counts the rows. It reads up to most rows of each index, and of the newest rows by
// their IDs: it is exact if there are no more than that.
func (s *Statements) Counts(ctx context.Context, db DB, most int) (all []Tally, err error) {
	b := s.builder
	parts := []index{{by: b.id + " DESC"}}
	for _, i := range b.indexes() {
		if b.OrderBy != "" || i.suffix != "_promote" {
			parts = append(parts, i)
		}
	}
	var queries []string
	for i, part := range parts {
		queries = append(queries, b.tally(i, part, most))
	}
	read := make([]int, len(parts))
	err = each(ctx, db, func(rows *sql.Rows) error {
		var one Tally
		var word, kind sql.NullString
		var due bool
		err := rows.Scan(&one.part, &word, &due, &kind, &one.mine, &one.N)
		one.Status, one.Word, one.Kind = s.StatusOf(word.String, due), word.String, kind.String
		one.unindexed = one.Status == Done || one.Status == Other || one.Status == Waiting && !due && (b.OrderBy != "" || b.Dialect == MySQL)
		read[one.part] += one.N
		all = append(all, one)
		return err
	}, strings.Join(queries, " UNION ALL "))
	if err != nil {
		return nil, fmt.Errorf("retrytable: counts: %w", err)
	}
	complete := read[0] <= most // the newest rows are all rows
	all = slices.DeleteFunc(all, func(one Tally) bool {
		return !one.mine || complete && one.part > 0 || !complete && one.part == 0 && !one.unindexed
	})
	for i := range all {
		all[i].More = read[all[i].part] > most
	}
	return addedUp(all), nil
}

// addedUp adds up the tallies of rows that differ in nothing that is shown.
func addedUp(tallies []Tally) (all []Tally) {
	order := func(a, b Tally) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Word, b.Word), cmp.Compare(a.Kind, b.Kind))
	}
	slices.SortFunc(tallies, order)
	for _, one := range tallies {
		last := len(all) - 1
		if last < 0 || order(all[last], one) != 0 {
			all = append(all, one)
			continue
		}
		all[last].N, all[last].More = all[last].N+one.N, all[last].More || one.More
	}
	return all
}

// tally counts the rows of an index, up to one more than most.
func (b *builder) tally(part int, i index, most int) string {
	from, rows, order := b.table, "", i.by
	mine := cmp.Or(b.fixedWhere(), "1 = 1")
	if i.suffix != "" {
		from, rows, order = b.through(i)
		rows, mine = " WHERE "+rows, "1 = 1"
	}
	kind := cmp.Or(optional(b.Columns.Kind, b.dialect.asText(b.kind)), "NULL")
	return fmt.Sprintf("SELECT %d, word, has_due, kind_text, mine, count(*) FROM (SELECT %s AS word, CASE WHEN %s IS NULL THEN 0 ELSE 1 END AS has_due,"+
		" %s AS kind_text, CASE WHEN %s THEN 1 ELSE 0 END AS mine FROM %s%s ORDER BY %s LIMIT %d) AS part_%d GROUP BY word, has_due, kind_text, mine",
		part, b.status, b.due, kind, mine, from, rows, order, most+1, part)
}

// Times are when the first row was due that has a due time, and when the next one is, by the clock of
// the database.
type Times struct{ Oldest, Next, Now time.Time }

// Times reads them.
func (s *Statements) Times(ctx context.Context, db DB) (Times, error) {
	b := s.builder
	i := b.claimIndex()
	if i.due == "" {
		i = b.promoteIndex()
	}
	from, rows, order := b.through(i)
	moment := cmp.Or(b.instants.moment, b.instants.now)
	first := func(condition string) string {
		return fmt.Sprintf("(SELECT %s FROM %s WHERE %s AND %s > %s ORDER BY %s LIMIT 1)", b.instants.micros(b.due), from, rows, order, condition, order)
	}
	var due, past, clock sql.NullInt64
	err := each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&past, &due, &clock) },
		"SELECT "+set(first(b.instants.always+" AND "+order+" <= "+moment), first(moment), b.dialect.clock()))
	if err != nil {
		err = fmt.Errorf("retrytable: counts: %w", err)
	}
	return Times{Instant(past), Instant(due), Instant(clock)}, err
}

// Instant is one in microseconds since 1970. NULL is the zero Time.
func Instant(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

// record are the columns of a [Listing]: the ID, the fence, the word of the status, whether there is a due time,
// three counts, four instants, three texts, of which the last has so many characters, and now.
func (b *builder) record(text int) string {
	either := func(name, sql, none string) string { return cmp.Or(optional(name, sql), none) }
	at := func(name, column string) string { return either(name, b.instants.micros(column), "NULL") }
	c := b.Columns
	cut := func(name, column string, most int) string {
		return either(name, fmt.Sprintf("substr(%s, 1, %d)", b.dialect.asText(column), most), "NULL")
	}
	return set(
		b.id, "coalesce("+b.fence+", 0)", b.status, "CASE WHEN "+b.due+" IS NULL THEN 0 ELSE 1 END", b.counted(),
		either(c.RateLimited, "coalesce("+b.rateLimited+", 0)", "0"), either(c.Pending, "coalesce("+b.pending+", 0)", "0"),
		at(c.First, b.first), at(c.Ended, b.ended), at(c.Due, b.due), at(c.Lease, b.leaseUntil),
		cut(c.Kind, b.kind, longestWord), cut(c.Category, b.category, longestWord), cut(c.Error, b.text, text), b.dialect.clock(),
	)
}

const longestWord = 200

// Listing is a page of rows, the newest first by their IDs.
type Listing struct {
	Filter
	Name   string // of the method
	After  any    // the page begins after this ID
	Limit  int    // of the rows
	Looked int    // how many rows are looked at
	Text   int    // characters of the texts
}

// Listed is what a Listing has found.
type Listed[R any] struct {
	Rows []R // up to one more than the limit

	// Last is the ID of the last row that was looked at, if there may be others. It is nil if it does
	// not matter because there is a row more. Partial says that no page has those others.
	Last    any
	Partial bool
}

// List returns rows, each as scan reads it.
func List[R any](ctx context.Context, db DB, s *Statements, l Listing, scan func(*sql.Rows) (R, error)) (found Listed[R], err error) {
	b, users := s.builder, userArgs{name: l.Name}
	users.NArgs, _ = b.parameters(l.Where)
	if err := users.CheckArgs(l.Args); err != nil {
		return found, err
	}
	v := values{slices.Clone(l.Args)}
	conditions := append([]string{b.fixedWhere()}, b.matching(l.Filter, &v)...)
	if l.Status != 0 {
		conditions = append(conditions, b.among(l.Status))
	}
	w := b.window(l, len(present(conditions...)) == 0)
	looked := w.sql(&v)
	if l.After != nil && (!w.byID || len(l.IDs) > 0) {
		conditions = append(conditions, b.id+" < "+v.parameter(l.After))
	}
	from := b.byIDs(fmt.Sprintf("(%s LIMIT %d) AS looked", looked, w.size))
	q := b.renumbered(fmt.Sprintf("SELECT %s FROM %s ORDER BY %s DESC LIMIT %d", b.record(l.Text), and(from, conditions...), b.id, l.Limit+1))
	err = each(ctx, db, func(rows *sql.Rows) error {
		r, err := scan(rows)
		found.Rows = append(found.Rows, r)
		return err
	}, q.sql, q.ordered(v.all)...)
	if err == nil && (len(found.Rows) <= l.Limit || !w.byID) {
		found.Last, err = w.last(ctx, db)
		found.Partial = found.Last != nil && !w.byID
	}
	return found, users.failed(err)
}

// byIDs is what a query of the rows of some IDs has after FROM: looked is a query of looked_id. It
// looks for each in the index of the IDs, however many they are: in a CROSS JOIN, the first table is the
// outer loop.
func (b *builder) byIDs(looked string) string {
	if b.Dialect == PostgreSQL {
		return fmt.Sprintf("%s WHERE %s = ANY (ARRAY(SELECT looked_id FROM %s))", b.table, b.id, looked)
	}
	return fmt.Sprintf("%s CROSS JOIN %s WHERE %s = looked_id", looked, b.table, b.id)
}

// window is what a listing looks at: some rows of an index.
type window struct {
	*builder
	Listing

	byID bool // it is in the order of the IDs, so the next page looks at what follows
	size int
}

// window of a listing; all its rows are wanted if nothing narrows it.
func (b *builder) window(l Listing, narrowsNothing bool) window {
	w := window{b, l, l.Status == 0 || l.Status&^(Ready|Waiting) != 0 && l.Status != Running, l.Looked}
	if len(l.IDs) > 0 {
		w.size = len(l.IDs)
	} else if w.byID && (narrowsNothing || l.Status == Dead && len(b.matching(l.Filter, &values{})) == 0) {
		w.size = l.Limit + 1
	}
	return w
}

// sql is a query of the IDs, without its limit.
func (w window) sql(v *values) string {
	if len(w.IDs) > 0 {
		return fmt.Sprintf("SELECT %s AS looked_id FROM %s WHERE %s IN %s", w.id, w.table, w.id, list(v, w.IDs))
	}
	i := index{condition: "1 = 1", by: w.id + " DESC"}
	switch {
	case w.Status == Dead:
		i = w.deadIndex()
		i.by += " DESC"
	case w.Status == Running:
		i = w.sweepIndex()
	case !w.byID && w.OrderBy != "":
		timed := w.soonest(w.promoteIndex())
		if w.Status != Waiting { // of which that index has none
			timed = w.soonest(w.claimIndex()) + " UNION ALL " + timed
		}
		if s := w.Statuses; s.Waiting == s.Ready || s.Waiting == s.Dead { // without an instant a row is one of these
			return timed
		}
		return timed + " UNION ALL " + w.untimed(index{condition: w.waiting(), due: w.due})
	case !w.byID:
		i = w.claimIndex()
	}
	if !w.byID && w.Dialect == MySQL {
		return w.soonest(i) + " UNION ALL " + w.untimed(i)
	}
	from, rows, order := w.through(i)
	if w.byID && w.After != nil {
		rows += " AND " + w.id + " < " + v.parameter(w.After)
	}
	return fmt.Sprintf("SELECT %s AS looked_id FROM %s WHERE %s ORDER BY %s", w.id, from, rows, order)
}

// soonest are the first rows of an index.
func (w window) soonest(i index) string {
	from, rows, order := w.through(i)
	return fmt.Sprintf("SELECT * FROM (SELECT %s AS looked_id FROM %s WHERE %s ORDER BY %s LIMIT %d) AS %s",
		w.id, from, rows, order, w.size, "soonest"+i.suffix)
}

// untimed are the rows that have no instant, and are in no index: those among the newest rows.
func (w window) untimed(i index) string {
	return fmt.Sprintf("SELECT looked_id FROM (SELECT %s AS looked_id, %s FROM %s ORDER BY %s DESC LIMIT %d) AS newest WHERE %s AND (%s) IS NULL",
		w.id, set(w.status, w.due, w.leaseUntil), w.table, w.id, w.size, i.condition, i.due)
}

// last is the ID of the last row, if the window is full.
func (w window) last(ctx context.Context, db DB) (id any, err error) {
	if w.IDs != nil {
		return nil, nil
	}
	var v values
	q := w.renumbered(fmt.Sprintf("%s LIMIT 1 OFFSET %d", w.sql(&v), w.size-1))
	all, err := w.ids(ctx, db, q.sql, q.ordered(v.all)...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// Whole returns all columns of a row, by their names, and what they have. They are none if there
// is no such row.
func (s *Statements) Whole(ctx context.Context, db DB, id any) (names []string, all []any, err error) {
	b := s.builder
	q := b.dialect.bind("SELECT * FROM " + b.table + " WHERE " + b.id + " = $1")
	err = each(ctx, db, func(rows *sql.Rows) (err error) {
		if names, err = rows.Columns(); err != nil {
			return err
		}
		all = make([]any, len(names))
		into := make([]any, len(names))
		for i := range all {
			into[i] = &all[i]
		}
		return rows.Scan(into...)
	}, q.sql, q.ordered([]any{id})...)
	return names, all, err
}

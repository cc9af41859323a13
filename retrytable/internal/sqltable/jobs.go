package sqltable

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is a state of a row, or several. The constants have the order of those of
// retrytable.Status, where they are described.
type Status uint8

// The states.
const (
	Ready Status = 1 << iota
	Waiting
	Running
	Done
	Dead
	Other
)

// Filter says which rows an operation or a look is about.
type Filter struct {
	IDs             []any
	Kinds           []string
	Status          Status
	Category, Error string // Error has * for any text
	Since, Until    time.Time
	Where           string // of the user, whose parameters come first
	Args            []any  // for Where, and for the assignments of the user
	more            string // of ours
}

// StatusOf is the state of a row with this word, which may have a due time.
func (t *Table) StatusOf(word string, due bool) Status {
	s := t.Statuses
	switch {
	case word == s.Ready && word == s.Waiting && due, word == s.Waiting && word != s.Ready && (due || word != s.Dead):
		return Waiting
	case word == s.Ready:
		return Ready
	case word == s.Dead:
		return Dead
	case slices.Contains(s.Running, word):
		return Running
	case slices.Contains(s.Done, word):
		return Done
	default:
		return Other
	}
}

// among is the condition of rows in one of the states. Where it can be, it is that of an index,
// word for word.
func (b *builder) among(status Status) string {
	s := b.Statuses
	var all []string
	add := func(states Status, condition string) {
		if status&states == states && condition != "" {
			all = append(all, condition)
			status &^= states
		}
	}
	ready, done := oneOf(b.status, s.Ready), ""
	if s.Ready == s.Waiting {
		ready += " AND " + b.due + " IS NULL"
	}
	if words := slices.DeleteFunc(slices.Clone(s.Done), func(word string) bool { return word == s.Dead }); len(words) > 0 {
		done = oneOf(b.status, words...)
	}
	if s.Waiting != s.Dead {
		add(Ready|Waiting, b.live())
	}
	add(Ready, ready)
	add(Waiting, b.waiting())
	add(Running, b.running())
	add(Done, done)
	add(Dead, b.dead())
	add(Other, "NOT ("+oneOf(b.status, s.all()...)+")")
	if len(all) == 0 {
		return "1 = 0"
	}
	return "(" + strings.Join(all, " OR ") + ")"
}

// waiting is the condition of rows that wait for their retry.
func (b *builder) waiting() string {
	waiting := oneOf(b.status, b.Statuses.Waiting)
	if b.Statuses.Waiting == b.Statuses.Dead || b.Statuses.Waiting == b.Statuses.Ready {
		waiting += " AND " + b.due + " IS NOT NULL"
	}
	return waiting
}

// values collects the arguments of a statement.
type values struct{ all []any }

func (v *values) parameter(value any) string {
	v.all = append(v.all, value)
	return fmt.Sprintf("$%d", len(v.all))
}

func list[T any](v *values, all []T) string {
	var list []string
	for _, value := range all {
		list = append(list, v.parameter(value))
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// likePattern is the pattern of LIKE, with ! as its escape, for a text with * for any text.
var likePattern = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_", "*", "%")

// matching are the conditions of f besides those of the state and the IDs.
func (b *builder) matching(f Filter, v *values) (all []string) {
	all = append(all, f.Where, f.more)
	if len(f.Kinds) > 0 {
		all = append(all, b.kind+" IN "+list(v, f.Kinds))
	}
	if f.Category != "" {
		all = append(all, b.category+" = "+v.parameter(f.Category))
	}
	if f.Error != "" {
		all = append(all, b.text+" LIKE "+v.parameter(likePattern.Replace(f.Error))+" ESCAPE '!'")
	}
	if !f.Since.IsZero() {
		all = append(all, b.key(b.ended)+" >= "+b.key(b.instants.of(v.parameter(f.Since.UnixMicro()))))
	}
	if !f.Until.IsZero() {
		all = append(all, b.key(b.ended)+" < "+b.key(b.instants.of(v.parameter(f.Until.UnixMicro()))))
	}
	return present(all...)
}

// Operation changes rows as a person wants it. It raises their fence, so that a worker that
// has a lease of one loses it.
type Operation struct {
	Name        string
	Set         string // of the user
	assignments func(b *builder, v *values) string
	leaseless   bool // only rows without a lease
}

// Again has rows tried again within a time, with counts that begin anew or are kept.
func Again(name, additional string, within time.Duration, keep bool) Operation {
	return Operation{Name: name, Set: additional, assignments: func(b *builder, v *values) string {
		pause, counts := "0", ""
		if within > 0 {
			pause = b.dialect.share(v.parameter(microseconds(within)))
		}
		if !keep {
			counts = set(b.attempts+" = 0", optional(b.Columns.RateLimited, b.rateLimited+" = 0"),
				optional(b.Columns.Pending, b.pending+" = 0"), optional(b.Columns.First, b.first+" = NULL"))
		}
		return set(counts, b.status+" = "+literal(b.Statuses.Waiting), b.due+" = "+b.instants.after(pause))
	}}
}

// Over ends rows with a word for their status, and a text if there is one.
func Over(name, additional, word, text string) Operation {
	return Operation{Name: name, Set: additional, assignments: func(b *builder, v *values) string {
		text, isDead := Storable(text), word == b.Statuses.Dead
		why := ""
		if b.Columns.Error != "" && (text != "" || !isDead) {
			why = b.text + " = NULL"
			if text != "" {
				why = b.text + " = " + v.parameter(text)
			}
		}
		return set(b.status+" = "+literal(word), b.due+" = NULL", b.leaseUntil+" = NULL", b.ends(),
			optional(b.Columns.Category, b.category+" = NULL"), why)
	}}
}

// Back gives rows back, which are due at an instant, or at once. The attempt of a running row
// does not count.
func Back(name, additional string, due time.Time) Operation {
	return Operation{Name: name, Set: additional, assignments: func(b *builder, v *values) string {
		status, at := b.Statuses.Ready, "NULL"
		if !due.IsZero() {
			status, at = b.Statuses.Waiting, b.instants.of(v.parameter(RoundedUp(due, b.Instants.Unit())))
		}
		uncounted := fmt.Sprintf("%s = CASE WHEN %s AND %s > 0 THEN %s - 1 ELSE %s END",
			b.attempts, b.running(), b.attempts, b.attempts, b.attempts)
		return set(b.forget(b.running()+" AND "), optional(b.Columns.Attempts, uncounted), b.status+" = "+literal(status), b.due+" = "+at, b.leaseUntil+" = NULL")
	}}
}

// RoundedUp is an instant in microseconds since 1970, as a multiple of so many of them.
func RoundedUp(at time.Time, unit int) int64 {
	micros := at.Add(time.Microsecond - 1).UnixMicro()
	whole := micros / int64(unit) * int64(unit)
	if micros > whole {
		whole += int64(unit)
	}
	return whole
}

// Lost gives running rows without a lease one that has run out.
func Lost(name string) Operation {
	return Operation{
		Name: name, leaseless: true,
		assignments: func(b *builder, _ *values) string { return b.leaseUntil + " = " + b.instants.now },
	}
}

// batch is how many rows one statement of an operation changes at most: they are locked for some
// milliseconds.
const batch = 1000

// Operate changes up to most rows, in the order of their IDs. It returns how many it has
// changed, also with an error.
func (s *Statements) Operate(ctx context.Context, db DB, o Operation, f Filter, most int64) (n int64, err error) {
	b, users := s.builder, userArgs{name: o.Name}
	users.NArgs, _ = b.parameters(set(f.Where, o.Set))
	if err := users.CheckArgs(f.Args); err != nil {
		return 0, err
	}
	if o.leaseless {
		f.more = b.leaseUntil + " IS NULL"
	}
	var after any // the last ID
	for n < most {
		size := int(min(batch, most-n))
		ids := f.IDs[:min(len(f.IDs), size)]
		if f.IDs != nil {
			f.IDs = f.IDs[len(ids):]
		} else if ids, err = b.following(ctx, db, f, after, size); err != nil {
			return n, users.failed(err)
		}
		if len(ids) == 0 {
			return n, nil
		}
		changed, err := b.operate(ctx, db, o, f, ids)
		if err != nil {
			return n, users.failed(err)
		}
		n, after = n+changed, ids[len(ids)-1]
	}
	return n, nil
}

// following returns the IDs that follow one, of rows to change.
func (b *builder) following(ctx context.Context, db DB, f Filter, after any, most int) ([]any, error) {
	v := values{slices.Clone(f.Args)}
	wheres := b.matching(f, &v)
	if after != nil {
		wheres = append(wheres, b.id+" > "+v.parameter(after))
	}
	by := index{condition: b.among(f.Status), by: b.id}
	if f.Status == Dead {
		by = b.deadIndex()
	}
	from, rows, order := b.through(by)
	q := b.renumbered(fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", b.id, from, and(rows, wheres...), order, most))
	return b.ids(ctx, db, q.sql, q.ordered(v.all)...)
}

// operate changes those of the rows that still are as the filter wants them. It waits for the
// locks of the rows, in the order of their IDs, as every operation does.
func (b *builder) operate(ctx context.Context, db DB, o Operation, f Filter, ids []any) (changed int64, err error) {
	v := values{slices.Clone(f.Args)}
	ours := o.assignments(b, &v)
	p := &picking{
		builder:     b,
		from:        index{condition: b.among(f.Status), by: b.id},
		wheres:      append(b.matching(f, &v), b.fixedWhere()),
		assignments: set(o.Set, ours, b.fence+" = coalesce("+b.fence+", 0) + 1"),
		returning:   b.id,
		waits:       true,
	}
	pick := b.picked(o.Name, len(f.Args), p)
	err = pick.pick(ctx, db, narrowing{pick, Some{N: len(ids), IDs: ids}, v.all}, func(rows *sql.Rows) error {
		changed++
		_, err := b.ScanID(rows)
		return err
	})
	return changed, err
}

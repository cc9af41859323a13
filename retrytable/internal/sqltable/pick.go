package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pick is a statement that updates the first few rows of an index and returns them: a claim,
// for example. It leaves out the rows that another Pick is just updating.
type Pick struct {
	userArgs
	picker

	b    *builder
	look query // the query of the IDs of its rows, which changes nothing
}

// picker is how a dialect picks rows.
type picker interface {
	// pick picks some rows, and calls scan for each.
	pick(ctx context.Context, db DB, some narrowing, scan func(*sql.Rows) error) error
}

// Some says which rows a Pick takes: up to N of its rows. If there are IDs, it takes only
// rows that have one of them, or with None, only rows that have none of them.
type Some struct {
	N    int
	IDs  []any
	None bool

	Of  *Owner  // only of this one
	But []Owner // none of these
}

// these reports whether only rows with some IDs are taken.
func (s Some) these() bool { return len(s.IDs) > 0 && !s.None }

// Owner is whom rows belong to: those with one kind, or with one key.
type Owner struct {
	Key  bool   // a value of Columns.Key; else of Columns.Kind
	Name string // the value as a text; "" for NULL
}

// Rows runs p, and returns what it returns. The args must have passed CheckArgs.
func Rows[T any](
	ctx context.Context, db DB, p *Pick, some Some, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	err = p.pick(ctx, db, narrowing{p, some, args}, func(rows *sql.Rows) error {
		one, err := scan(rows)
		all = append(all, one)
		return err
	})
	if err != nil { // also of the commit: the rows are not the caller's
		return nil, p.failed(err)
	}
	return all, nil
}

// Look returns the IDs of the rows that p would take, in their order. It changes nothing.
func (p *Pick) Look(ctx context.Context, db DB, some Some, args []any) ([]any, error) {
	sql, args := narrowing{p, some, args}.of(p.look)
	return p.b.ids(ctx, db, sql, args...)
}

// narrowing narrows the queries of a Pick to some rows.
type narrowing struct {
	*Pick
	Some

	args []any
}

// What stands in a query for what is known only when it runs. As comments, they are no part
// of any name or word.
const (
	someRows  = "/*retrytable: n*/"        // how many rows
	manyRows  = "/*retrytable: many*/"     // as many, or mostMerged if that is more
	moreRows  = "/*retrytable: n + more*/" // as many and mostLocked
	theseRows = "/*retrytable: these*/"    // the conditions of the IDs and the owners
	exactRows = "/*retrytable: exactly*/"  // a parameter with how many rows; the others are rounded up then
	firstByID = "/*retrytable: by ID*/"    // the ID and a comma, if all rows of the IDs are wanted
)

// mostMerged is how many retries a claim looks at, if it claims fewer: so many have their
// place in the order, and they are still read quickly.
const mostMerged = 1000

// mostLocked is how many of the first retries others may hold before a claim finds none.
const mostLocked = 100

// of returns the SQL of q for those rows, and its arguments.
func (r narrowing) of(q query) (sql string, args []any) {
	args = q.ordered(r.args)
	var conditions strings.Builder
	add := func(column, word string, values []any) {
		if len(values) > 0 {
			list, more := idList(len(args), values)
			conditions.WriteString(r.b.dialect.bind(" AND " + column + word + list).sql)
			args = slices.Concat(args, more)
		}
	}
	word := " IN "
	if r.None {
		word = " NOT IN "
	}
	add(r.b.id, word, r.IDs)
	for i, column := range []string{r.b.kind, r.b.owner} {
		key, column := i == 1, r.b.dialect.exactText(column)
		var names []any
		for _, o := range r.But {
			if o.Key == key {
				names = append(names, o.Name)
			}
		}
		add(column, " NOT IN ", names)
		if r.Of != nil && r.Of.Key == key {
			add(column, " IN ", []any{r.Of.Name})
		}
	}
	n := r.N
	if strings.Contains(q.sql, exactRows) {
		args = slices.Concat(args, []any{int64(n)})
		n = powerOfTwo(n)
	}
	first := ""
	if r.these() && len(r.IDs) <= r.N { // the index of their order has others before them
		first = r.b.id + ", "
	}
	return strings.NewReplacer(
		firstByID, first, someRows, strconv.Itoa(n), manyRows, strconv.Itoa(max(n, mostMerged)), moreRows, strconv.Itoa(n+mostLocked),
		theseRows, conditions.String(), exactRows, "$"+strconv.Itoa(len(args)),
	).Replace(q.sql), args
}

// pick makes q a picker, where a database updates rows and returns them with one statement.
func (q query) pick(ctx context.Context, db DB, some narrowing, scan func(*sql.Rows) error) error {
	sql, args := some.of(q)
	return each(ctx, db, scan, sql, args...)
}

// picking is what a Pick picks and does with it.
type picking struct {
	*builder

	from        index
	wheres      []string // further conditions, of the user; some may be empty
	assignments string
	returning   string
	waits       bool // for rows that somebody else has locked, instead of leaving them out
}

func (b *builder) pick(name string, from index, wheres []string, addition, returning, assignments string) *Pick {
	n, _ := b.parameters(set(append(slices.Clone(wheres), addition)...))
	return b.picked(name, n, &picking{b, from, wheres, set(addition, assignments), returning, false})
}

func (b *builder) picked(name string, nArgs int, p *picking) *Pick {
	run, look := b.dialect.picker(p)
	return &Pick{userArgs{name, nArgs}, run, b, b.renumbered(look)}
}

// renumbered is a query with new numbers for its parameters, because PostgreSQL cannot tell
// the type of one that is not used.
func (b *builder) renumbered(sql string) query {
	order := []int{}
	sql = b.dialect.parameter().ReplaceAllStringFunc(sql, func(parameter string) string {
		n, err := strconv.Atoi(parameter[1:])
		if parameter[0] != '$' || err != nil {
			return parameter
		}
		order = append(order, n)
		return "$" + strconv.Itoa(len(order))
	})
	return query{b.dialect.bind(sql).sql, order}
}

// look is a query of the IDs of the rows, in their order.
func (p *picking) look() string {
	if !p.merges() {
		return p.selection()
	}
	return fmt.Sprintf("SELECT picked_id FROM (%s) AS fresh UNION ALL SELECT picked_id FROM (%s) AS retries",
		p.selection(), p.retries())
}

// selection is a query of the IDs in the index, in its order.
func (p *picking) selection() string {
	return fmt.Sprintf("SELECT %s AS picked_id FROM %s WHERE %s ORDER BY %s%s LIMIT %s",
		p.id, p.table, p.conditions(p.from.passed(p.builder)), firstByID, cmp.Or(p.from.due, p.from.by), someRows)
}

// conditions are those of an index and of the user.
func (p *picking) conditions(first string) string {
	return and(first, p.wheres...) + theseRows
}

// lock follows a query that locks the rows.
func (p *picking) lock() string {
	if p.waits {
		return strings.TrimSuffix(p.dialect.lock(), " SKIP LOCKED")
	}
	return p.dialect.lock()
}

// merges reports whether p is a claim that merges.
func (p *picking) merges() bool { return p.Merge && p.from.suffix == "_claim" }

// retries is a query of the IDs of retries, in the order of the user: of the first that
// should be among them, and some more in case others hold the lock of those.
func (p *picking) retries() string {
	waiting := p.promoteIndex()
	_, name := p.schemaAndName() // the order may say it
	return fmt.Sprintf("SELECT %s AS picked_id FROM (SELECT * FROM %s WHERE %s ORDER BY %s LIMIT %s) AS %s ORDER BY %s LIMIT %s",
		p.id, p.table, p.conditions(waiting.passed(p.builder)), waiting.due, manyRows, p.dialect.quote(name), p.OrderBy, moreRows)
}

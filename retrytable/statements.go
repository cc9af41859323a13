package retrytable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// statement is the SQL of one method. The parameters of the user come first, so
// that those of ours do not change their numbers.
type statement struct {
	name string
	sql  string
	args int // how many the user has to give
}

// statements are those of one Table.
type statements struct {
	claim, sweep, promote statement
	succeed, retry, end   statement
	extend, release       statement
	done                  []string // the words for succeed
	lease                 int64    // in microseconds
	rateLimited           bool     // there is such a column
}

// builder builds them, from the quoted names of the definition.
type builder struct {
	*definition
	table, id, status, attempts, due, leaseUntil, fence, rateLimited, first string
}

func (d *definition) builder() *builder {
	parts := strings.Split(d.name, ".")
	for i, part := range parts {
		parts[i] = d.dialect.identifier(part)
	}
	quote := d.dialect.identifier
	return &builder{
		definition:  d,
		table:       strings.Join(parts, "."),
		id:          quote(d.columns.ID),
		status:      quote(d.columns.Status),
		attempts:    quote(d.columns.Attempts),
		due:         quote(d.columns.Due),
		leaseUntil:  quote(d.columns.Lease),
		fence:       quote(d.columns.Fence),
		rateLimited: quote(d.columns.RateLimited),
		first:       quote(d.columns.First),
	}
}

func (d *definition) build() *statements {
	b := d.builder()
	return &statements{
		claim:       b.claim(),
		sweep:       b.sweep(),
		promote:     b.promote(),
		succeed:     b.succeed(),
		retry:       b.fail(d.statuses.Waiting, b.set.Retry, true),
		end:         b.fail(d.statuses.Dead, b.set.End, false),
		extend:      b.extend(),
		release:     b.release(),
		done:        d.statuses.Done,
		lease:       microseconds(d.lease),
		rateLimited: d.columns.RateLimited != "",
	}
}

// microseconds rounds up, so that nothing is early.
func microseconds(d time.Duration) int64 {
	return int64(retry.Decision{Delay: max(d, 0)}.DelayCeil(time.Microsecond) / time.Microsecond)
}

// set joins assignments, leaving out empty ones.
func set(assignments ...string) string {
	return strings.Join(slices.DeleteFunc(assignments, func(a string) bool { return a == "" }), ", ")
}

// optional is an assignment to a column that there may be.
func optional(name, assignment string) string {
	if name == "" {
		return ""
	}
	return assignment
}

func (b *builder) claim() statement {
	return b.pick("claim", b.claimable(), b.set.Claim,
		b.lead(), set(
			b.status+" = "+literal(b.statuses.Running[0]),
			b.attempts+" = coalesce("+b.attempts+", 0) + 1",
			b.due+" = NULL",
			b.take(),
			optional(b.columns.First, b.first+" = coalesce("+b.first+", "+b.now()+")"),
		))
}

// sweep takes over the leases that have run out, and counts nothing: the claim
// has. If the sweeper dies, its leases run out in turn.
func (b *builder) sweep() statement {
	return b.pick("sweep", candidates{b.expired(), b.leaseUntil, []string{b.where}}, "", b.lead(), b.take())
}

func (b *builder) promote() statement {
	due := candidates{b.promotable() + " AND " + b.due + " <= " + b.now(), b.due, []string{b.where}}
	return b.pick("promote", due, b.set.Promote, b.id, set(b.status+" = "+literal(b.statuses.Ready), b.due+" = NULL"))
}

// take makes a row the caller's.
func (b *builder) take() string {
	lease := strconv.FormatInt(microseconds(b.lease), 10)
	return set(
		b.leaseUntil+" = "+b.after(lease),
		b.fence+" = coalesce("+b.fence+", 0) + 1",
	)
}

// lead is what a Row is read from.
func (b *builder) lead() string {
	rateLimited, first := "0", "NULL"
	if b.columns.RateLimited != "" {
		rateLimited = "coalesce(" + b.rateLimited + ", 0)"
	}
	if b.columns.First != "" {
		first = b.micros(b.first)
	}
	return strings.Join([]string{
		b.id, b.fence, "coalesce(" + b.attempts + ", 0)", rateLimited, first, b.dialect.clock(),
	}, ", ")
}

// claimable are the rows that may be claimed now.
func (b *builder) claimable() candidates {
	wheres := []string{b.where, b.claimWhere}
	if b.orderBy != "" {
		return candidates{b.promoted(), b.orderBy, wheres}
	}
	queue := b.queue()
	return candidates{b.live() + " AND " + queue + " <= " + b.now(), queue, wheres}
}

// live is the condition of rows that are or will be due, if they have a due time.
func (b *builder) live() string {
	return oneOf(b.status, b.statuses.Ready, b.statuses.Waiting)
}

// queue is when a row is due. It is what the index is made of, because an index
// cannot be searched for "NULL or past" in order.
func (b *builder) queue() string {
	due := "coalesce(" + b.due + ", " + b.always() + ")"
	if b.statuses.Ready == b.statuses.Waiting {
		return due
	}
	return "CASE WHEN " + b.status + " = " + literal(b.statuses.Ready) + " THEN " + due + " ELSE " + b.due + " END"
}

// promoted is the condition of rows that are claimed in an order of the user's.
func (b *builder) promoted() string {
	return oneOf(b.status, b.statuses.Ready) + " AND " + b.due + " IS NULL"
}

// promotable is the condition of rows that will be promoted.
func (b *builder) promotable() string { return b.live() + " AND " + b.due + " IS NOT NULL" }

// expired is the condition of rows whose lease has run out.
func (b *builder) expired() string { return b.running() + " AND " + b.leaseUntil + " <= " + b.now() }

func (b *builder) running() string { return oneOf(b.status, b.statuses.Running...) }

// candidates are the rows among which some are picked.
type candidates struct {
	condition, order string
	wheres           []string // further conditions, of the user; some may be empty
}

// pick is a statement that updates the first few of the candidates, except those
// that another such statement is just updating.
//
// In PostgreSQL the rows are found in a common table expression: below IN, the
// planner may search for them more than once and lock more than it should.
func (b *builder) pick(name string, from candidates, addition, returning, assignments string) statement {
	n, _ := parameters(set(append(slices.Clone(from.wheres), addition)...))
	conditions := []string{from.condition}
	for _, where := range from.wheres {
		if where != "" {
			conditions = append(conditions, "("+b.dialect.translate(where)+")")
		}
	}
	picked := fmt.Sprintf("SELECT %s AS picked_id FROM %s WHERE %s ORDER BY %s LIMIT %s",
		b.id, b.table, strings.Join(conditions, " AND "), from.order, b.dialect.parameter(n+1))
	assignments = set(assignments, b.dialect.translate(addition))
	if b.dialect == SQLite {
		return statement{name, fmt.Sprintf("UPDATE %s SET %s WHERE %s IN (%s) RETURNING %s",
			b.table, assignments, b.id, picked, returning), n}
	}
	return statement{name, fmt.Sprintf("WITH picked AS MATERIALIZED (%s FOR NO KEY UPDATE SKIP LOCKED) "+
		"UPDATE %s SET %s FROM picked WHERE %s = picked_id RETURNING %s",
		picked, b.table, assignments, b.id, returning), n}
}

// finish is a statement that updates a row whose lease is still the caller's.
// Its parameters are the user's, those of the assignments, the ID and the fence.
func (b *builder) finish(name, addition string, assignments func(parameter func() string) string) statement {
	n, _ := parameters(addition)
	used := n
	parameter := func() string {
		used++
		return b.dialect.parameter(used)
	}
	sql := fmt.Sprintf("UPDATE %s SET %s WHERE %s = %s AND %s = %s AND %s", b.table,
		set(assignments(parameter), b.dialect.translate(addition)), b.id, parameter(), b.fence, parameter(), b.running())
	return statement{name, sql, n}
}

func (b *builder) succeed() statement {
	return b.finish("succeed", b.set.Succeed, func(parameter func() string) string {
		return set(b.status+" = "+parameter(), b.leaseUntil+" = NULL")
	})
}

// fail stores a State as it is, because a claim counts in advance: the attempts
// of a failure that costs none are those from before the claim.
func (b *builder) fail(status, addition string, again bool) statement {
	return b.finish("fail", set(b.set.Fail, addition), func(parameter func() string) string {
		assignments := set(b.status+" = "+literal(status), b.leaseUntil+" = NULL", b.attempts+" = "+parameter())
		if b.columns.RateLimited != "" {
			assignments = set(assignments, b.rateLimited+" = "+parameter())
		}
		due := "NULL"
		if again {
			due = b.after(parameter())
		}
		return set(assignments, b.due+" = "+due)
	})
}

func (b *builder) extend() statement {
	return b.finish("extend", "", func(parameter func() string) string {
		return b.leaseUntil + " = " + b.after(parameter())
	})
}

func (b *builder) release() statement {
	return b.finish("release", b.set.Release, func(func() string) string {
		return set(
			b.status+" = "+literal(b.statuses.Ready),
			b.attempts+" = "+b.attempts+" - 1",
			b.due+" = NULL",
			b.leaseUntil+" = NULL",
		)
	})
}

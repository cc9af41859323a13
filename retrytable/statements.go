package retrytable

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// statement is the SQL of one method. The parameters of the user come first, so
// that those of ours do not change their numbers.
type statement struct {
	name string
	args int // how many the user has to give
	query
	tail string // follows the query if that is to lock rows

	// What a statement that picks rows needs to pick others: the quoted name of the ID, how
	// parameters are written, and the query of the IDs of its rows, which changes nothing.
	id   string
	bind func(string) query
	look query

	// The steps that follow, in the same transaction, where a database cannot do all at
	// once. The query has then locked the rows and returned their IDs.
	update query // what is done to them
	read   query // what is returned of them, if anything

	// The same for many rows at once, where a database has a form for that; see storeAll.
	group, all string
	whole      int // how many of our arguments are the same for all rows

	text bool // the last of our arguments is one
}

// statements are those of one Table.
type statements struct {
	claim, sweep, promote statement
	succeed, retry, end   statement
	extend                statement
	release, postpone     statement
	ended                 statement
	held                  holding
	done                  []string // the words for succeed
	statuses              Statuses
	lease                 int64   // in microseconds
	columns               Columns // as they are called, without quotes
	promotes              bool    // a claim does
}

// builder builds them, from the quoted names of the definition.
type builder struct {
	*definition
	table, id, status, attempts, due, leaseUntil, fence, rateLimited, pending, first, kind, text string
}

func (d *definition) builder() *builder {
	parts := strings.Split(d.name, ".")
	for i, part := range parts {
		parts[i] = d.dialect.quote(part)
	}
	quote := d.dialect.quote
	return &builder{
		definition:  d,
		table:       strings.Join(parts, "."),
		id:          quote(d.columns.ID),
		status:      quote(d.columns.Status),
		attempts:    quote(cmp.Or(d.columns.Retries, d.columns.Attempts)),
		due:         quote(d.columns.Due),
		leaseUntil:  quote(d.columns.Lease),
		fence:       quote(d.columns.Fence),
		rateLimited: quote(d.columns.RateLimited),
		pending:     quote(d.columns.Pending),
		first:       quote(d.columns.First),
		kind:        quote(d.columns.Kind),
		text:        quote(d.columns.Error),
	}
}

func (d *definition) build() *statements {
	b := d.builder()
	return &statements{
		claim:    b.claim(),
		sweep:    b.sweep(),
		promote:  b.promote(),
		succeed:  b.succeed(),
		retry:    b.fail(d.statuses.Waiting, b.set.Retry, true),
		end:      b.fail(d.statuses.Dead, b.set.End, false),
		extend:   b.dialect.extend(b),
		release:  b.release(d.statuses.Ready, false),
		postpone: b.release(d.statuses.Waiting, true),
		ended:    b.ended(),
		held:     b.holding(),
		done:     d.statuses.Done,
		statuses: d.statuses,
		lease:    microseconds(d.lease),
		columns:  d.columns,
		promotes: d.orderBy != "" && !d.noPromote && !d.merge,
	}
}

// microseconds rounds up, so that nothing is early.
func microseconds(d time.Duration) int64 {
	return int64(sat.Add(max(d, 0), time.Microsecond-1) / time.Microsecond)
}

// set joins assignments, leaving out empty ones. Those of the user go before ours, and
// what reads a column before what changes it: in MySQL, an assignment sees what those
// before it have done.
func set(assignments ...string) string { return strings.Join(present(assignments...), ", ") }

// present returns those that are not empty.
func present(all ...string) []string {
	return slices.DeleteFunc(all, func(one string) bool { return one == "" })
}

// optional is the SQL for an optional column.
func optional(name, sql string) string {
	if name == "" {
		return ""
	}
	return sql
}

func (b *builder) claim() statement {
	return b.pick("claim", b.claimIndex(), []string{b.where, b.claimWhere}, b.set.Claim,
		b.lead(b.begun()), set(
			b.status+" = "+literal(b.statuses.Running[0]),
			optional(b.columns.Attempts, b.attempts+" = "+b.counted()+" + 1"),
			b.due+" = NULL",
			b.take(),
			optional(b.columns.First, b.first+" = coalesce("+b.first+", "+b.instants.now+")"),
		))
}

// sweep takes over the leases that have run out, and counts nothing: the claim
// has. If the sweeper dies, its leases run out in turn.
func (b *builder) sweep() statement {
	return b.pick("sweep", b.sweepIndex(), []string{b.where}, "", b.lead(b.begun()), b.take())
}

func (b *builder) promote() statement {
	from, wheres := b.promoteIndex(), []string{b.where}
	if b.orderBy == "" { // the index of claims has them too
		from, wheres = b.claimIndex(), []string{b.due + " IS NOT NULL", b.where}
	}
	return b.pick("promote", from, wheres, b.set.Promote,
		b.id, set(b.status+" = "+literal(b.statuses.Ready), b.due+" = NULL"))
}

// take makes a row the caller's.
func (b *builder) take() string {
	lease := strconv.FormatInt(microseconds(b.lease), 10)
	return set(
		b.leaseUntil+" = "+b.instants.after(lease),
		b.fence+" = coalesce("+b.fence+", 0) + 1",
	)
}

// counted is what the row has counted.
func (b *builder) counted() string { return "coalesce(" + b.attempts + ", 0)" }

// begun is how many attempts a claimed row has begun.
func (b *builder) begun() string {
	if b.columns.Retries != "" {
		return b.counted() + " + 1"
	}
	return b.counted()
}

// lead is what a Row is read from.
func (b *builder) lead(attempts string) string {
	return set(
		b.id, b.fence, attempts,
		cmp.Or(optional(b.columns.RateLimited, "coalesce("+b.rateLimited+", 0)"), "0"),
		cmp.Or(optional(b.columns.Pending, "coalesce("+b.pending+", 0)"), "0"),
		cmp.Or(optional(b.columns.First, b.instants.micros(b.first)), "NULL"),
		cmp.Or(optional(b.columns.Kind, b.kind), "NULL"), b.dialect.clock(),
	)
}

// pick is a statement that updates the first few rows of an index, except those that
// another such statement is just updating.
func (b *builder) pick(name string, from index, wheres []string, addition, returning, assignments string) statement {
	n, _ := b.parameters(set(append(slices.Clone(wheres), addition)...))
	p := &picking{name, n, from, wheres, set(addition, assignments), returning}
	s := b.dialect.pick(b, p)
	s.id, s.bind, s.look = b.id, b.dialect.bind, s.query
	if s.update.sql == "" { // the query changes the rows
		s.look = p.look(b)
	}
	return s
}

// look is a query of the IDs of the rows, in their order. It numbers its parameters anew,
// because PostgreSQL cannot tell the type of one that is not used.
func (p *picking) look(b *builder) query {
	sql := p.selection(b, p.from)
	if p.merged(b) {
		sql = fmt.Sprintf("SELECT picked_id FROM (%s) AS fresh UNION ALL SELECT picked_id FROM (%s) AS retries", sql, p.retries(b))
	}
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

// picking is what a statement picks and does with it.
type picking struct {
	name        string
	args        int
	from        index
	wheres      []string // further conditions, of the user; some may be empty
	assignments string
	returning   string
}

// What is put into a query when it is run: how many rows it picks, and which.
const (
	someRows  = "\x00" // n
	manyRows  = "\x01" // n, or mostMerged if that is more
	someMore  = "\x02" // n and mostLocked
	theseRows = "\x03" // the condition that they are listed, or not
)

// selection is a query of the IDs in an index, in its order.
func (p *picking) selection(b *builder, from index) string {
	return fmt.Sprintf("SELECT %s AS picked_id FROM %s WHERE %s ORDER BY %s LIMIT %s",
		b.id, b.table, p.conditions(from.passed(b)), cmp.Or(from.due, b.orderBy), someRows)
}

// conditions are those of an index and of the user.
func (p *picking) conditions(first string) string {
	conditions := []string{first}
	for _, where := range p.wheres {
		if where != "" {
			conditions = append(conditions, "("+where+")")
		}
	}
	return strings.Join(conditions, " AND ") + theseRows
}

// passed is the condition of the rows of an index whose instant has come.
func (i *index) passed(b *builder) string {
	if i.due == "" {
		return i.condition
	}
	return i.condition + " AND " + i.due + " <= " + cmp.Or(b.instants.moment, b.instants.now)
}

// retries is a query of the IDs of retries, in the order of the user: of the first that
// should be among them, and some more in case others hold the lock of those.
func (p *picking) retries(b *builder) string {
	waiting := b.promoteIndex()
	name := b.dialect.quote(b.name[strings.LastIndexByte(b.name, '.')+1:]) // in case the order says it
	return fmt.Sprintf("SELECT %s AS picked_id FROM (SELECT * FROM %s WHERE %s ORDER BY %s LIMIT %s) AS %s ORDER BY %s LIMIT %s",
		b.id, b.table, p.conditions(waiting.passed(b)), waiting.due, manyRows, name, b.orderBy, someMore)
}

// either is the condition of the rows that a claim merges.
func (p *picking) either(b *builder) string {
	waiting := b.promoteIndex()
	return p.conditions("(" + p.from.condition + " OR " + waiting.passed(b) + ")")
}

// merged reports whether p is a claim that merges.
func (p *picking) merged(b *builder) bool { return b.merge && p.from.due == "" }

// finish is a statement that updates a row whose lease is still the caller's.
// Its parameters are the user's, those of the assignments, the ID and the fence.
func (b *builder) finish(name, addition string, whole int, assignments func(parameter func() string) string) statement {
	n, _ := b.parameters(addition)
	parameter := numbered(n)
	sql := fmt.Sprintf("UPDATE %s SET %s WHERE %s", b.table, set(addition, assignments(parameter)), b.held(parameter))
	s := statement{name: name, query: b.dialect.bind(sql), args: n, whole: whole, text: name == "fail" && b.columns.Error != ""}
	b.dialect.group(b, &s, func(parameter func() string) string { return set(addition, assignments(parameter)) })
	return s
}

// numbered returns a function that returns the parameters after the first n.
func numbered(n int) func() string {
	return func() string {
		n++
		return "$" + strconv.Itoa(n)
	}
}

// held is the condition of a row whose lease is still the caller's.
func (b *builder) held(parameter func() string) string {
	return fmt.Sprintf("%s = %s AND %s = %s AND %s", b.id, parameter(), b.fence, parameter(), b.leased())
}

// leased is the condition of a row that has a lease. One that is running without it was taken
// by a program that knows of no leases, and so has the fence of a claim before.
func (b *builder) leased() string { return b.running() + " AND " + b.leaseUntil + " IS NOT NULL" }

// holding has a condition of the status that no index has, as in the groups of PostgreSQL.
func (b *builder) holding() holding {
	return holding{
		sql:  fmt.Sprintf("SELECT %s, %s FROM %s WHERE CASE WHEN %s THEN 1 END = 1 AND %s IN ", b.id, b.fence, b.table, b.leased(), b.id),
		bind: b.dialect.bind, lock: b.dialect.lock(),
	}
}

func (b *builder) succeed() statement {
	return b.finish("succeed", b.set.Succeed, 1, func(parameter func() string) string {
		return set(b.status+" = "+parameter(), b.leaseUntil+" = NULL", optional(b.columns.Error, b.text+" = NULL"))
	})
}

// fail stores a State as it is, because a claim counts in advance: the attempts
// of a failure that costs none are those from before the claim.
func (b *builder) fail(status, addition string, again bool) statement {
	return b.finish("fail", set(b.set.Fail, addition), 0, func(parameter func() string) string {
		assignments := set(b.status+" = "+literal(status), b.leaseUntil+" = NULL")
		if again || b.columns.Attempts != "" { // a retry that is not granted does not count
			assignments = set(assignments, b.attempts+" = "+parameter())
		}
		if b.columns.RateLimited != "" {
			assignments = set(assignments, b.rateLimited+" = "+parameter())
		}
		if b.columns.Pending != "" {
			assignments = set(assignments, b.pending+" = "+parameter())
		}
		if b.columns.First != "" {
			assignments = set(assignments, b.first+" = coalesce("+b.instants.of(parameter())+", "+b.first+")")
		}
		assignments = set(assignments, b.next(again, parameter))
		if b.columns.Error != "" {
			assignments = set(assignments, b.text+" = "+parameter())
		}
		return assignments
	})
}

// next is when a row is due that is not claimed any more.
func (b *builder) next(again bool, parameter func() string) string {
	if again {
		return b.due + " = " + b.instants.after(parameter())
	}
	return b.due + " = NULL"
}

func (b *builder) release(status string, later bool) statement {
	return b.finish("release", b.set.Release, 0, func(parameter func() string) string {
		return set(
			b.status+" = "+literal(status),
			b.forget(),
			optional(b.columns.Attempts, b.attempts+" = "+b.attempts+" - 1"),
			b.next(later, parameter),
			b.leaseUntil+" = NULL",
		)
	})
}

// forget clears the time of the first attempt, if the attempt that is taken back was the
// first.
func (b *builder) forget() string {
	none := cmp.Or(optional(b.columns.Attempts, " <= 1"), " <= 0")
	return optional(b.columns.First, b.first+" = CASE WHEN "+b.attempts+none+
		optional(b.columns.RateLimited, " AND coalesce("+b.rateLimited+", 0) = 0")+
		optional(b.columns.Pending, " AND coalesce("+b.pending+", 0) = 0")+" THEN NULL ELSE "+b.first+" END")
}

// ended reads what a finish writes, besides the State.
func (b *builder) ended() statement {
	number := func(column string) string { return "CASE WHEN " + column + " IS NULL THEN 0 ELSE 1 END" }
	return statement{name: "read back", query: b.dialect.bind(fmt.Sprintf("SELECT %s, %s, %s, %s FROM %s WHERE %s = $1",
		b.status, number(b.due), number(b.leaseUntil), b.lead(b.counted()), b.table, b.id))}
}

package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
)

// Update is a statement that changes a row whose lease is still the caller's. Its parameters
// are those of the user, those of the assignments, the ID and the fence.
type Update struct {
	userArgs
	updater
	grouper

	same  int // how many values are the same for all rows of a group: the first ones
	texts int // how many values are texts: the last ones
}

// assignments are those of an update, with parameters for its values.
type assignments func(parameter func() string) string

// updater is how a dialect runs an update for one row.
type updater interface {
	// update reports whether the lease is still the caller's.
	update(ctx context.Context, db DB, c *Change) (held bool, err error)
}

// update makes q an updater, where that takes one statement.
func (q query) update(ctx context.Context, db DB, c *Change) (held bool, err error) {
	changed, err := q.change(ctx, db, c.args())
	return changed > 0, err
}

// update has the assignments of the user and ours.
func (b *builder) update(name, addition string, same int, ours assignments) *Update {
	n, _ := b.parameters(addition)
	all := func(parameter func() string) string { return set(addition, ours(parameter)) }
	u := &Update{userArgs: userArgs{name, n}, updater: b.plain(all, n), same: same}
	if name == "fail" {
		u.texts = len(present(b.Columns.Category, b.Columns.Error))
	}
	u.grouper = b.dialect.grouper(b, u, all)
	return u
}

// plain is an updater with one statement, of which the user has the first few parameters.
func (b *builder) plain(assignments assignments, users int) updater {
	parameter := numbered(users)
	return b.dialect.bind(fmt.Sprintf("UPDATE %s SET %s WHERE %s", b.table, assignments(parameter), b.held(parameter)))
}

// held is the condition of a row whose lease is still the caller's.
func (b *builder) held(parameter func() string) string {
	return fmt.Sprintf("%s = %s AND %s = %s AND %s", b.id, parameter(), b.fence, parameter(), b.leased())
}

// leased is the condition of a row that has a lease. A running row without one was taken by a
// program that knows nothing of leases, so its fence is that of an earlier claim.
func (b *builder) leased() string { return b.running() + " AND " + b.leaseUntil + " IS NOT NULL" }

// Claimed is a claimed row, with the user's arguments for an update.
type Claimed struct {
	ID    any
	Fence int64
	Args  []any
}

// Change is an update of one row.
type Change struct {
	*Update
	Claimed

	values []any
}

// Exec runs c, whose arguments must have passed CheckArgs. It reports whether the lease is
// still the caller's: otherwise it has changed nothing.
func (c *Change) Exec(ctx context.Context, db DB) (held bool, err error) {
	held, err = c.update(ctx, db, c)
	return held, c.failed(err)
}

func (c *Change) args() []any { return slices.Concat(c.Args, c.values, []any{c.ID, c.Fence}) }

// WithOtherTexts returns c with texts that the database takes more likely.
func (c *Change) WithOtherTexts() (all []*Change) {
	first := len(c.values) - c.texts
	isText := func(value any) bool { _, ok := value.(string); return ok }
	if c.texts == 0 || !slices.ContainsFunc(c.values[first:], isText) {
		return nil
	}
	simple, none := *c, *c
	simple.values, none.values = slices.Clone(c.values), slices.Clone(c.values)
	for i := first; i < len(c.values); i++ {
		none.values[i] = nil
		if text, ok := c.values[i].(string); ok {
			simple.values[i] = plain(text)
		}
	}
	return []*Change{&simple, &none}
}

// MostGrouped is how many rows a group has at most: enough that the costs of a statement do
// not count, and few enough that nobody waits for it for long.
const MostGrouped = 1000

// GroupsWith reports whether c and other can be in one group.
func (c *Change) GroupsWith(other *Change) bool {
	return c.Update == other.Update && slices.Equal(c.values[:c.same], other.values[:c.same])
}

// grouper is how a dialect runs an update for several rows at once.
type grouper interface {
	// updateAll leaves out rows that somebody else has locked, and says which rows it has
	// changed. Of the others, the caller has lost the lease, or somebody else has the lock.
	updateAll(ctx context.Context, db DB, all []*Change) (changed []bool, err error)
}

// ExecAll runs changes that can be in one group; see grouper.
func ExecAll(ctx context.Context, db DB, all []*Change) (changed []bool, err error) {
	changed, err = all[0].updateAll(ctx, db, all)
	return changed, all[0].failed(err)
}

// lockedGroup is a grouper that locks the rows first, in one transaction.
type lockedGroup struct {
	locked   *leases // nil means that all rows are locked already
	together string  // a statement for all rows, up to the list of IDs; "" if each row has one of its own
}

func (g lockedGroup) updateAll(ctx context.Context, db DB, all []*Change) (changed []bool, err error) {
	err = InTx(ctx, db, func(db DB) error {
		if changed, err = g.locked.Held(ctx, db, all); err != nil {
			return err
		}
		var ids []any
		for i, c := range all {
			switch {
			case !changed[i]:
			case g.together != "":
				ids = append(ids, c.ID)
			default:
				if changed[i], err = c.update(ctx, db, c); err != nil {
					return err
				}
			}
		}
		if len(ids) == 0 {
			return nil
		}
		_, err := query{sql: g.together + mysqlList(len(ids))}.change(ctx, db, slices.Concat(all[0].values, ids))
		return err
	})
	return changed, err
}

// leases looks which leases are still the caller's.
type leases struct {
	table *Table
	sql   string // up to the list of IDs
	lock  string // what follows
}

// leases has a condition of the status that no index has, as in the groups of PostgreSQL.
func (b *builder) leases() *leases {
	return &leases{
		table: b.Table,
		sql:   fmt.Sprintf("SELECT %s, %s FROM %s WHERE CASE WHEN %s THEN 1 END = 1 AND %s IN ", b.id, b.fence, b.table, b.leased(), b.id),
	}
}

// locking is leases that locks the rows, without those that somebody else has locked.
func (b *builder) locking() lockedGroup {
	l := b.leases()
	l.lock = b.dialect.lock()
	return lockedGroup{locked: l}
}

// Held says of which rows the caller still has the lease, and has the lock, if it locks. It
// waits for no lock.
func (l *leases) Held(ctx context.Context, db DB, all []*Change) (held []bool, err error) {
	if l == nil {
		return slices.Repeat([]bool{true}, len(all)), nil
	}
	type row struct {
		id    string
		fence int64
	}
	var ids []any
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	found := map[row]bool{}
	list, args := idList(0, ids)
	err = each(ctx, db, func(rows *sql.Rows) error {
		var r row
		id, err := l.table.ScanID(rows, &r.fence)
		r.id = KeyOf(id)
		found[r] = true
		return err
	}, l.table.Dialect.sql().bind(l.sql+list+l.lock).sql, args...)
	held = make([]bool, len(all))
	for i, c := range all {
		held[i] = found[row{KeyOf(c.ID), c.Fence}]
	}
	return held, err
}

// KeyOf is what tells an ID from others, of whatever type it is.
func KeyOf(id any) string {
	value, err := driver.DefaultParameterConverter.ConvertValue(id)
	if err != nil {
		return fmt.Sprint(id)
	}
	if bytes, ok := value.([]byte); ok {
		return string(bytes)
	}
	return fmt.Sprint(value)
}

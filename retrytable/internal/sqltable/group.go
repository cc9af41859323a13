package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
)

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

// oneByOne is a grouper with a statement for each row, in one transaction.
type oneByOne struct {
	locked *leases // the rows are locked first; nil means that all rows are locked already
}

func (o oneByOne) updateAll(ctx context.Context, db DB, all []*Change) (changed []bool, err error) {
	err = InTx(ctx, db, func(db DB) error {
		if changed, err = o.lock(ctx, db, all); err != nil {
			return err
		}
		for i, c := range all {
			if !changed[i] {
				continue
			}
			if changed[i], err = c.update(ctx, db, c.args()); err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}

// lock says which rows it has locked.
func (o oneByOne) lock(ctx context.Context, db DB, all []*Change) ([]bool, error) {
	if o.locked == nil {
		return slices.Repeat([]bool{true}, len(all)), nil
	}
	return o.locked.held(ctx, db, all)
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
func (b *builder) locking() oneByOne {
	l := b.leases()
	l.lock = b.dialect.lock()
	return oneByOne{l}
}

// Held says of which rows the caller still has the lease. It waits for no lock.
func (s *Statements) Held(ctx context.Context, db DB, all []*Change) ([]bool, error) {
	return s.leases.held(ctx, db, all)
}

func (l *leases) held(ctx context.Context, db DB, all []*Change) (held []bool, err error) {
	type row struct {
		id    string
		fence int64
	}
	var ids []any
	for _, c := range all {
		ids = append(ids, c.id)
	}
	found := map[row]bool{}
	query := l.table.Dialect.sql().bind(l.sql + "(" + numbers(0, len(ids)) + ")" + l.lock).sql
	err = each(ctx, db, func(rows *sql.Rows) error {
		var r row
		id, err := l.table.ScanID(rows, &r.fence)
		r.id = KeyOf(id)
		found[r] = true
		return err
	}, query, padded(ids)...)
	held = make([]bool, len(all))
	for i, c := range all {
		held[i] = found[row{KeyOf(c.id), c.fence}]
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

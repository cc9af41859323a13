package sqltable

import (
	"context"
	"fmt"
	"slices"
)

// Update is a statement that changes a row whose lease is still the caller's. Its parameters
// are those of the user, those of the assignments, the ID and the fence.
type Update struct {
	userArgs
	updater
	grouper

	same    int  // how many values are the same for all rows of a group: the first ones
	hasText bool // the last value is a text
}

// assignments are those of an update, with parameters for its values.
type assignments func(parameter func() string) string

// updater is how a dialect runs an update for one row.
type updater interface {
	// update reports whether the lease is still the caller's.
	update(ctx context.Context, db DB, args []any) (held bool, err error)
}

// update makes q an updater, where that takes one statement.
func (q query) update(ctx context.Context, db DB, args []any) (held bool, err error) {
	changed, err := q.change(ctx, db, args)
	return changed > 0, err
}

func (b *builder) update(name, addition string, same int, ours assignments) *Update {
	n, _ := b.parameters(addition)
	all := func(parameter func() string) string { return set(addition, ours(parameter)) }
	parameter := numbered(n)
	u := &Update{
		userArgs: userArgs{name, n}, same: same, hasText: name == "fail" && b.Columns.Error != "",
		updater: b.dialect.bind(fmt.Sprintf("UPDATE %s SET %s WHERE %s", b.table, all(parameter), b.held(parameter))),
	}
	u.grouper = b.dialect.grouper(b, u, all)
	return u
}

// held is the condition of a row whose lease is still the caller's.
func (b *builder) held(parameter func() string) string {
	return fmt.Sprintf("%s = %s AND %s = %s AND %s", b.id, parameter(), b.fence, parameter(), b.leased())
}

// leased is the condition of a row that has a lease. A running row without one was taken by a
// program that knows nothing of leases, so its fence is that of an earlier claim.
func (b *builder) leased() string { return b.running() + " AND " + b.leaseUntil + " IS NOT NULL" }

// Values are the values of an update.
type Values struct {
	update *Update
	values []any
}

// Of returns the update of a row by v, with the arguments of the user.
func (v *Values) Of(id any, fence int64, users []any) *Change {
	return &Change{v.update, id, fence, users, v.values}
}

// Change is an update of one row.
type Change struct {
	*Update

	id     any
	fence  int64
	users  []any
	values []any
}

// Exec runs c, whose arguments must have passed CheckArgs. It reports whether the lease is
// still the caller's: otherwise it has changed nothing.
func (c *Change) Exec(ctx context.Context, db DB) (held bool, err error) {
	held, err = c.update(ctx, db, c.args())
	return held, c.failed(err)
}

func (c *Change) args() []any { return slices.Concat(c.users, c.values, []any{c.id, c.fence}) }

// CheckArgs says what is wrong with the user's arguments.
func (c *Change) CheckArgs() error { return c.userArgs.CheckArgs(c.users) }

// UnknownArg says which of the user's arguments the driver may not take, if there is one.
func (c *Change) UnknownArg(err error) error { return c.userArgs.UnknownArg(c.users, err) }

// WithOtherTexts returns c with texts that the database takes more likely.
func (c *Change) WithOtherTexts() (all []*Change) {
	if !c.hasText {
		return nil
	}
	before := c.values[:len(c.values)-1]
	if text, ok := c.values[len(before)].(string); ok {
		for _, instead := range []any{plain(text), nil} {
			other := *c
			other.values = append(slices.Clone(before), instead)
			all = append(all, &other)
		}
	}
	return all
}

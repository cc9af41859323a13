// Package sqltable is the SQL of package retrytable, and what runs it: for each dialect, how
// rows are picked, changed and stored in groups, and how a table is made and checked. It
// knows tables and rows. It does not know policies, jobs and workers.
package sqltable

import (
	"cmp"
	"database/sql"
	"strings"
	"time"
)

// Table describes a table. Its fields are those of retrytable.Table; see there.
type Table struct {
	Dialect  Dialect
	Instants Instants
	Name     string
	Columns  Columns
	Statuses Statuses
	Lease    time.Duration
	Set      Set

	Where, ClaimWhere, OrderBy       string
	Notify                           string
	NoPromote, Merge, KeepAutovacuum bool

	// ScanID reads an ID, and what follows it in the row. Only the caller knows the type of IDs.
	ScanID func(rows *sql.Rows, more ...any) (id any, err error)
}

// Columns are the names of columns, without quotes. Those of optional columns may be empty.
type Columns struct {
	ID, Status, Attempts, Retries, Due, Lease, Fence, RateLimited, Pending, First, Ended, Kind, Key, Category, Error string
}

// Statuses are the words of the status column.
type Statuses struct {
	Ready, Waiting string
	Running, Done  []string
	Dead           string
}

// Set has the user's assignments.
type Set struct {
	Claim, Succeed, Fail, Retry, End, Release, Promote string
}

const defaultLease = time.Minute

// WithDefaults sets the empty fields of t, and returns it.
func (t *Table) WithDefaults() *Table {
	c, s := &t.Columns, &t.Statuses
	for field, name := range map[*string]string{
		&c.ID: "id", &c.Status: "status", &c.Due: "due_at", &c.Lease: "lease_until", &c.Fence: "fence",
		&s.Ready: "ready", &s.Waiting: "waiting", &s.Dead: "dead",
	} {
		*field = cmp.Or(*field, name)
	}
	if c.Retries == "" {
		c.Attempts = cmp.Or(c.Attempts, "attempts")
	}
	if len(s.Running) == 0 {
		s.Running = []string{"running"}
	}
	if len(s.Done) == 0 {
		s.Done = []string{"done"}
	}
	t.Lease = cmp.Or(t.Lease, defaultLease)
	return t
}

// builder builds the SQL of a table.
type builder struct {
	*Table

	dialect  dialect
	instants *instantSQL

	// The quoted names.
	table, id, status, attempts, due, leaseUntil, fence, rateLimited, pending, first, ended, kind, owner, category, text string
}

func (t *Table) builder() *builder {
	b := &builder{Table: t, dialect: t.Dialect.sql(), instants: t.Instants.sql(t.Dialect)}
	parts := strings.Split(t.Name, ".")
	for i, part := range parts {
		parts[i] = b.dialect.quote(part)
	}
	b.table = strings.Join(parts, ".")
	c := &t.Columns
	for quoted, name := range map[*string]string{
		&b.id: c.ID, &b.status: c.Status, &b.attempts: cmp.Or(c.Retries, c.Attempts), &b.due: c.Due, &b.leaseUntil: c.Lease,
		&b.fence: c.Fence, &b.rateLimited: c.RateLimited, &b.pending: c.Pending, &b.first: c.First,
		&b.ended: c.Ended, &b.kind: c.Kind, &b.owner: c.Key, &b.category: c.Category, &b.text: c.Error,
	} {
		*quoted = b.dialect.quote(name)
	}
	return b
}

// schemaAndName splits the name of a table at its last dot. The schema may be empty.
func (t *Table) schemaAndName() (schema, name string) {
	if dot := strings.LastIndexByte(t.Name, '.'); dot >= 0 {
		return t.Name[:dot], t.Name[dot+1:]
	}
	return "", t.Name
}

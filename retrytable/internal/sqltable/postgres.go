package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// postgres is PostgreSQL.
type postgres struct{}

func (postgres) quote(name string) string { return quoted(`"`, name) }

func (postgres) fold(name string) string { return name }

func (postgres) parameter() *regexp.Regexp { return standardParameter }

func (postgres) bind(sql string) query { return query{sql: sql} }

// PostgreSQL's clocks. The instant of the statement decides what is due: the instant of
// the transaction may be long past, and an index cannot be searched for an instant that
// changes. Durations count from the current moment, because a statement may have
// waited for a lock.
const (
	postgresStatement = "statement_timestamp()"
	postgresMoment    = "clock_timestamp()"
)

func (postgres) micros(instant string) string {
	return "(extract(epoch FROM " + instant + ") * 1000000)::bigint"
}

func (postgres) exactText(column string) string { return "coalesce(" + column + "::text, '')" }

func (d postgres) clock() string { return d.micros(postgresMoment) }

func (d postgres) instants(as Instants) *instantSQL {
	var s instantSQL
	switch as {
	case DefaultInstants, Timestamptz:
		s = instantSQL{
			column: "timestamptz",
			now:    postgresStatement,
			always: "'-infinity'::timestamptz",
			after:  func(micros string) string { return postgresMoment + " + " + micros + " * interval '1 microsecond'" },
			of:     func(micros string) string { return "'epoch'::timestamptz + " + micros + " * interval '1 microsecond'" },
			micros: func(column string) string {
				return "CASE WHEN isfinite(" + column + ") THEN " + d.micros(column) + " END"
			},
		}
	case UnixMicros, UnixMillis, UnixSeconds:
		s = *integers("bigint", d.micros(postgresStatement), d.clock(), "/", as)
	default:
		return nil
	}
	// The type of a parameter is not always told by where it stands.
	after, of := s.after, s.of
	s.after = func(micros string) string { return after(micros + "::bigint") }
	s.of = func(micros string) string { return of(micros + "::bigint") }
	return &s
}

func (postgres) types() types { return types{word: "text", text: "text", integer: "bigint"} }

func (d postgres) parts(b *builder) []part {
	parts := b.columnParts("ALTER TABLE "+b.table+" ADD COLUMN IF NOT EXISTS ", " DEFAULT "+b.instants.now)
	_, table := b.schemaAndName() // an index is in the schema of its table
	for _, i := range b.indexes() {
		name := d.indexName(table, i.ending(b))
		sql := fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s) WHERE %s", d.quote(name), b.table, i.columns(b), i.rows(b))
		parts = append(parts, part{index: name, sql: sql, dispensable: true})
	}
	if b.Notify != "" {
		parts = append(parts, d.notifying(b))
	}
	return parts
}

// indexName is a name that PostgreSQL does not cut off: two names that are cut off may be
// equal.
func (postgres) indexName(table, suffix string) string {
	const longest = 63
	if len(table)+len(suffix) <= longest {
		return table + suffix
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(table))
	suffix = fmt.Sprintf("_%08x%s", hash.Sum32(), suffix)
	return strings.ToValidUTF8(table[:longest-len(suffix)], "") + suffix
}

// picker finds the rows in a common table expression. Below IN, the planner might search for
// them more than once, and lock more rows than it updates. The number of rows is a parameter only
// outside of a query with a rounded number: with a parameter alone, PostgreSQL expects a tenth of
// the table, and sorts it. It locks the rows one by one, and only those that are wanted.
//
// A claim that merges locks new rows in the order of their index, so that it finds some if
// others lock the first ones. It sorts the retries before it locks some of them.
func (d postgres) picker(p *picking) (run picker, look string) {
	locked := func(selection string) string {
		if p.waits {
			return "(" + selection + p.lock() + ")"
		}
		return "(SELECT picked_id FROM (" + selection + p.lock() + ") AS each LIMIT " + exactRows + ")"
	}
	picked := "WITH picked AS MATERIALIZED " + locked(p.selection())
	if p.merges() {
		waiting := p.promoteIndex()
		either := p.conditions("(" + p.from.condition + " OR " + waiting.passed(p.builder) + ")")
		picked = fmt.Sprintf("WITH fresh AS MATERIALIZED %s, picked AS MATERIALIZED %s",
			locked(p.selection()), locked(fmt.Sprintf("SELECT %s AS picked_id FROM %s"+
				" WHERE %s = ANY (ARRAY(SELECT picked_id FROM fresh UNION ALL (%s))) AND %s ORDER BY %s LIMIT %s",
				p.id, p.table, p.id, p.retries(), either, p.OrderBy, someRows)))
	}
	return d.bind(fmt.Sprintf("%s UPDATE %s SET %s WHERE %s = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING %s",
		picked, p.table, p.assignments, p.id, p.returning)), p.look()
}

func (postgres) share(micros string) string { return "(random() * " + micros + "::bigint)" }

func (postgres) asText(column string) string { return "CAST(" + column + " AS text)" }

func (postgres) lock() string { return " FOR NO KEY UPDATE SKIP LOCKED" }

// grouper has one statement for a group, unless the user's SQL has parameters, whose types
// nobody knows.
func (d postgres) grouper(b *builder, u *Update, assignments assignments) grouper {
	if u.NArgs > 0 {
		return b.locking()
	}
	return postgresGroup{d.group(b, u, assignments), b.locking()}
}

// group is a statement that has an array for the IDs, for the fences, and for each value
// that differs between the rows. It returns the places in the arrays of the rows it has changed.
//
// Arrays are sent as text, so that every driver can send them. PostgreSQL finds the type of
// the IDs from an empty array of the column. The planner does not see how long an array of a
// subquery is: for a short one it would make a plan each time. The condition of the leases is one
// for which no index is used: the planner takes the index of the leases for nearly empty, and
// would read it anew for each row of the group.
func (d postgres) group(b *builder, u *Update, assignments assignments) string {
	parameter := numbered(0)
	columns := []string{"given_id", "given_fence"}
	arrays := []string{
		"(SELECT coalesce(" + parameter() + ", (SELECT array_agg(" + b.id + ") FROM " + b.table + " WHERE false)))",
		"(SELECT " + parameter() + "::bigint[])",
	}
	n := 0
	changes := assignments(func() string {
		if n++; n <= u.same {
			return parameter()
		}
		column := "given_" + strconv.Itoa(n)
		columns, arrays = append(columns, column), append(arrays, "(SELECT "+parameter()+"::bigint[])")
		return column
	})
	for i := len(arrays) - u.texts; i < len(arrays); i++ {
		arrays[i] = strings.TrimSuffix(arrays[i], "bigint[])") + "text[])"
	}
	_, name := b.schemaAndName()
	return fmt.Sprintf("WITH held AS MATERIALIZED (SELECT %s AS held_id, given.*"+
		" FROM unnest(%s) WITH ORDINALITY AS given(%s, given_place), %s"+
		" WHERE %s = given_id AND %s = given_fence AND CASE WHEN %s THEN true END FOR NO KEY UPDATE OF %s SKIP LOCKED)"+
		" UPDATE %s SET %s FROM held WHERE %s = held_id RETURNING given_place",
		b.id, strings.Join(arrays, ", "), strings.Join(columns, ", "), b.table, b.id, b.fence, b.leased(), d.quote(name),
		b.table, changes, b.id)
}

// postgresGroup is a grouper with one statement for all rows.
type postgresGroup struct {
	sql string

	lockedGroup // for values that cannot be in an array
}

func (g postgresGroup) updateAll(ctx context.Context, db DB, all []*Change) (changed []bool, err error) {
	args, ok := arrays(all)
	if !ok {
		return g.lockedGroup.updateAll(ctx, db, all)
	}
	changed = make([]bool, len(all))
	err = each(ctx, db, func(rows *sql.Rows) error {
		var place int
		err := rows.Scan(&place)
		if err == nil {
			changed[place-1] = true
		}
		return err
	}, g.sql, args...)
	return changed, err
}

// arrays returns the arguments of a group, if all its values can be in arrays.
func arrays(all []*Change) (args []any, ok bool) {
	first := all[0]
	columns := make([][]string, 2+len(first.values)-first.same)
	for _, c := range all {
		for i, value := range append([]any{c.ID, c.Fence}, c.values[c.same:]...) {
			element, ok := arrayElement(value)
			if !ok {
				return nil, false
			}
			columns[i] = append(columns[i], element)
		}
	}
	for _, elements := range columns {
		args = append(args, "{"+strings.Join(elements, ",")+"}")
	}
	return slices.Insert(args, 2, first.values[:first.same]...), true
}

// arrayElement is a number, a text, or what becomes one of them for the driver, as in an
// array. Other values need their type.
func arrayElement(value any) (element string, ok bool) {
	value, err := driver.DefaultParameterConverter.ConvertValue(value)
	switch value := value.(type) {
	case int64:
		return strconv.FormatInt(value, 10), true
	case string:
		return `"` + arrayEscapes.Replace(value) + `"`, true
	case nil:
		return "NULL", err == nil
	default:
		return "", false
	}
}

var arrayEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// extender locks the row first. An assignment is computed before an UPDATE waits for a
// lock, and the lease would be counted from then.
func (d postgres) extender(b *builder, longer assignments) updater {
	return d.bind(fmt.Sprintf("WITH held AS MATERIALIZED (SELECT %s AS held_id FROM %s WHERE %s FOR NO KEY UPDATE) "+
		"UPDATE %s SET %s FROM held WHERE %s = held_id",
		b.id, b.table, b.held(numbered(1)), b.table, longer(numbered(0)), b.id))
}

// A table without statistics is one whose migration was killed before the last statement. In a small
// one, that does not matter. The triggers are among the indexes, with the bodies of their functions.
func (postgres) inspection(b *builder) inspection {
	return inspection{
		args: []any{b.table},
		columns: `SELECT a.attname, format_type(a.atttypid, NULL), a.attnotnull,
	EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
		AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
	has_column_privilege(a.attrelid, a.attnum, 'SELECT'), has_column_privilege(a.attrelid, a.attnum, 'UPDATE'),
	coalesce((SELECT string_agg(quote_literal(e.enumlabel), ',') FROM pg_enum e WHERE e.enumtypid = a.atttypid), ''),
	CASE WHEN a.atttypid = 'varchar'::regtype THEN a.atttypmod - 4 ELSE -1 END, '', false, ''
	FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`,
		table: `SELECT relkind = 'p', relkind <> 'p' AND reltuples > 1000 AND NOT row_security_active(c.oid) AND NOT EXISTS (
	SELECT FROM pg_stats s WHERE s.schemaname = (SELECT nspname FROM pg_namespace WHERE oid = relnamespace) AND s.tablename = relname AND s.attname = status)
	AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = status AND a.attstattarget = 0), ''
	FROM pg_class c, (SELECT CAST(` + literal(b.Columns.Status) + ` AS name) AS status) AS named WHERE oid = to_regclass($1)`,
		indexes: `SELECT c.relname::text, CASE WHEN i.indisvalid THEN '' ELSE i.indexrelid::regclass::text END, NULL
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass($1)
	UNION ALL SELECT tgname || ':' || prosrc, '', NULL FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid
	WHERE tgrelid = to_regclass($1) AND NOT tgisinternal`,
	}
}

// mend reads instants without a zone in the time zone of the session, as PostgreSQL does
// where a program compares them with now(). If that is UTC, it rewrites nothing. Programs
// go on: what they write and compare is converted in the same way, unless it has a zone. It
// removes the limit of a text, which rewrites nothing.
func (d postgres) mend(b *builder, column column, f found, words []string) (all []string) {
	for _, word := range words {
		all = append(all, "ALTER TYPE "+f.sqlType+" ADD VALUE IF NOT EXISTS "+literal(word))
	}
	alter := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE ", b.table, d.quote(column.name))
	switch {
	case column.field == "Error" && f.sqlType == "character varying":
		all = append(all, alter+"text")
	case f.sqlType == "timestamp without time zone" && b.instants.column == "timestamptz":
		all = append(all, alter+"timestamptz")
	}
	return all
}

// A character is padded with spaces, which a comparison leaves out.
var postgresTypes = map[string]content{
	"smallint": anInteger, "integer": anInteger, "bigint": anInteger,
	"text": aStatus | aKind | aText, "character varying": aStatus | aKind | aText, "character": aStatus,
	"json": aKind, "jsonb": aKind,
}

func (postgres) takes(f found) content {
	if f.words != nil {
		return aStatus | aKind
	}
	return postgresTypes[f.sqlType]
}

func (d postgres) instantMisfit(b *builder, name string, f found) string {
	wanted := "bigint"
	if b.instants.column == "timestamptz" {
		wanted = "timestamp with time zone"
	}
	switch name := d.quote(name); {
	case f.sqlType == wanted:
		return ""
	case f.sqlType == "text" && b.instants.column == "timestamptz":
		return fmt.Sprintf("is text, but Instants wants %s; to convert it: ALTER TABLE %s ALTER COLUMN %s TYPE timestamptz USING %s::timestamptz",
			wanted, b.table, name, name)
	default:
		return "is " + f.sqlType + ", but Instants wants " + wanted
	}
}

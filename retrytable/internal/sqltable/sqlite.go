package sqltable

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// sqlite is SQLite.
type sqlite struct{}

// quote uses grave accents, because SQLite reads a name in double quotes that it does
// not know as a string.
func (sqlite) quote(name string) string { return quoted("`", name) }

func (sqlite) fold(name string) string { return strings.ToLower(name) }

func (sqlite) parameter() *regexp.Regexp { return standardParameter }

func (d sqlite) bind(sql string) query {
	return query{sql: d.parameter().ReplaceAllStringFunc(sql, func(p string) string {
		if p[0] != '$' {
			return p
		}
		return "?" + p[1:]
	})}
}

// exactText is an expression, because a column would be compared by its collation.
func (sqlite) exactText(column string) string { return "coalesce(" + column + " || '', '')" }

// clock is one that any version knows, to the millisecond.
func (d sqlite) clock() string { return d.millis("'now'") + " * 1000" }

func (d sqlite) instants(as Instants) *instantSQL {
	switch as.kind() {
	case DefaultInstants, UnixMicros, UnixMillis, UnixSeconds:
		return integers("INTEGER", d.clock(), d.clock(), "/", as)
	case RFC3339:
		return d.text(as)
	default:
		return nil
	}
}

// millis is the SQL for an instant in milliseconds since 1970: of 'now', or of text.
func (sqlite) millis(instant string) string {
	return "CAST(round((julianday(" + instant + ") - 2440587.5) * 86400000.0) AS INTEGER)"
}

// text is the SQL for instants that are text. They are compared as what they mean, because
// others may write them in other forms. strftime cuts off what is less than a second or a millisecond.
func (d sqlite) text(as Instants) *instantSQL {
	seconds := "%H:%M:%S"
	if as&Whole == 0 {
		seconds = "%H:%M:%f"
	}
	format := func(millis string) string {
		return "strftime('" + as.Layout("%Y-%m-%d", seconds, "") + "', (" + millis + ") / 1000.0, 'unixepoch')"
	}
	up := func(micros string) string { return fmt.Sprintf("(%s + %d) / 1000", micros, as.Unit()-1) }
	return &instantSQL{
		column: "TEXT",
		now:    format(d.millis("'now'")),
		moment: d.millis("'now'"),
		key:    d.millis,
		always: "0",
		after:  func(micros string) string { return format(up(d.clock() + " + " + micros)) },
		of:     func(micros string) string { return format(up(micros)) },
		micros: func(column string) string { return d.millis(column) + " * 1000" },
	}
}

func (sqlite) types() types { return types{word: "TEXT", text: "TEXT", integer: "INTEGER"} }

// parts have no IF NOT EXISTS for columns, and no default for due ones, because SQLite
// has neither.
func (d sqlite) parts(b *builder) []part {
	parts := b.columnParts("ALTER TABLE "+b.table+" ADD COLUMN ", "")
	schema, table := b.schemaAndName()
	if schema != "" {
		schema = d.quote(schema) + "."
	}
	for _, i := range b.indexes() {
		name := table + i.ending(b)
		sql := fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s%s ON %s (%s) WHERE %s",
			schema, d.quote(name), d.quote(table), i.columns(b), i.rows(b))
		parts = append(parts, part{index: name, sql: sql, dispensable: true})
	}
	return parts
}

// mend does nothing: a column cannot be changed.
func (sqlite) mend(*builder, column, found, []string) []string { return nil }

// picker needs no locks, because there is one writer at a time. In a CROSS JOIN, the first
// table is the outer loop: an index of the user's must not be read in the order instead.
func (d sqlite) picker(p *picking) (run picker, look string) {
	picked := p.selection()
	if p.merges() {
		id := p.table + "." + p.id
		picked = fmt.Sprintf("SELECT %s FROM (SELECT * FROM (%s) UNION ALL SELECT * FROM (%s)) CROSS JOIN %s ON %s = picked_id ORDER BY %s LIMIT %s",
			id, p.selection(), p.retries(), p.table, id, p.OrderBy, someRows)
	}
	return d.bind(fmt.Sprintf("UPDATE %s SET %s WHERE %s IN (%s) RETURNING %s",
		p.table, p.assignments, p.id, picked, p.returning)), p.look()
}

func (sqlite) share(micros string) string {
	return "CAST(abs(random() % 1000000) / 1e6 * " + micros + " AS INTEGER)"
}

func (sqlite) asText(column string) string { return "CAST(" + column + " AS text)" }

func (sqlite) lock() string { return "" }

// grouper has a statement for each row, because there is no network to wait for. There is
// one writer at a time, so the transaction has all locks already.
func (sqlite) grouper(*builder, *Update, assignments) grouper { return lockedGroup{} }

// extender needs no lock: nobody else writes meanwhile.
func (sqlite) extender(b *builder, longer assignments) updater { return b.plain(longer, 0) }

func (sqlite) inspection(b *builder) inspection {
	schema, name := b.schemaAndName()
	return inspection{
		args: []any{name, cmp.Or(schema, "main")},
		columns: `SELECT name, type, "notnull", pk > 0 AND (SELECT count(*) FROM pragma_table_info(?1, ?2) WHERE pk > 0) = 1, 1, 1, '', -1, '', 0, ''
	FROM pragma_table_info(?1, ?2)`,
		indexes: `SELECT l.name, '', CASE WHEN l."unique" AND NOT l.partial AND count(*) = 1 THEN max(i.name) END
	FROM pragma_index_list(?1, ?2) l, pragma_index_info(l.name, ?2) i GROUP BY l.name`,
	}
}

// sqliteText matches the types of which SQLite does not make numbers.
var sqliteText = regexp.MustCompile("(?i)char|clob|text|^$")

// takes finds types that make text of numbers, which would be compared as text, and the
// other way round.
func (sqlite) takes(f found) content {
	c := aStatus | aKind
	if sqliteInteger(f) {
		c |= anInteger
	}
	if sqliteText.MatchString(f.sqlType) {
		c |= aText
	}
	return c
}

func sqliteInteger(f found) bool { return strings.Contains(strings.ToUpper(f.sqlType), "INT") }

func (sqlite) instantMisfit(b *builder, _ string, f found) string {
	switch texts, integer := b.instants.column == "TEXT", sqliteInteger(f); {
	case texts && integer:
		return "is " + f.sqlType + ", but Instants wants TEXT"
	case !texts && !integer:
		return "is " + f.sqlType + ", and must be INTEGER, or Instants must be RFC3339"
	default:
		return ""
	}
}

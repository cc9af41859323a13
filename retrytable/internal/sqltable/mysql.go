package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// mysql is MySQL, and MariaDB. They know neither indexes of some of the rows nor
// UPDATE … RETURNING, and MariaDB no indexes of expressions. So a generated column has
// the instant at which a row is due, or NULL if it is not for the statement to pick, and
// to pick rows takes a transaction.
type mysql struct{}

func (mysql) quote(name string) string { return quoted("`", name) }

func (mysql) fold(name string) string { return strings.ToLower(name) }

// mysqlParameter knows that strings have escapes, and lines may end in another comment.
var mysqlParameter = regexp.MustCompile(
	"\\$[0-9]+|'(?:[^'\\\\]|''|\\\\(?s:.))*'|\"(?:[^\"\\\\]|\"\"|\\\\(?s:.))*\"|`(?:[^`]|``)*`|(?:--|#)[^\\n]*|(?s:/\\*.*?\\*/)")

func (mysql) parameter() *regexp.Regexp { return mysqlParameter }

func (d mysql) bind(sql string) query {
	order := []int{}
	sql = d.parameter().ReplaceAllStringFunc(sql, func(p string) string {
		if p[0] != '$' {
			return p
		}
		n, _ := strconv.Atoi(p[1:]) // Validate has seen it
		order = append(order, n)
		return "?"
	})
	return query{sql, order}
}

// mysqlNow is the instant of the statement. A statement that counts from now on must not
// have to wait for a lock.
const mysqlNow = "UTC_TIMESTAMP(6)"

// micros does not depend on the time zone of the session, as UNIX_TIMESTAMP does.
func (mysql) micros(instant string) string {
	return "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', " + instant + ")"
}

func (mysql) exactText(column string) string {
	return "CAST(coalesce(CONVERT(" + column + " USING utf8mb4), '') AS binary)"
}

func (d mysql) clock() string { return d.micros(mysqlNow) }

func (d mysql) instants(as Instants) *instantSQL {
	switch as {
	case DefaultInstants, Datetime:
		return &instantSQL{
			column: "datetime(6)",
			now:    mysqlNow,
			always: "TIMESTAMP'1000-01-01 00:00:00'", // the first there is
			after:  func(micros string) string { return mysqlNow + " + INTERVAL " + micros + " MICROSECOND" },
			of: func(micros string) string {
				return "TIMESTAMPADD(MICROSECOND, " + micros + ", TIMESTAMP'1970-01-01 00:00:00')"
			},
			micros: d.micros,
		}
	case UnixMicros, UnixMillis, UnixSeconds:
		return integers("bigint", d.clock(), d.clock(), "DIV", as)
	default:
		return nil
	}
}

// generated returns the column that an index is made of, with its type and what it has.
// The index has the same name. The name has a digest of the expression: a column for other
// words or another Where has another name, so that a statement finds the right one or none.
func (mysql) generated(b *builder, i index) (name, sqlType, expression string) {
	sqlType = b.instants.column
	if i.due == "" {
		sqlType = "tinyint"
	}
	expression = "CASE WHEN " + i.rows(b) + " THEN " + cmp.Or(i.due, "1") + " END"
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(sqlType + expression))
	return fmt.Sprintf("%s_%08x", i.suffix[1:], digest.Sum32()), sqlType, expression
}

// mysqlText is the type of texts that may have any character.
const mysqlText = "text CHARACTER SET utf8mb4"

func (mysql) types() types {
	return types{word: "varchar(255) CHARACTER SET utf8mb4", text: mysqlText, integer: "bigint"}
}

// parts are clauses of one statement, which copies the table once. There is no IF NOT
// EXISTS.
func (d mysql) parts(b *builder) []part {
	parts := b.columnParts("ADD COLUMN ", " DEFAULT ("+b.instants.now+")")
	for _, i := range b.indexes() {
		name, sqlType, expression := d.generated(b, i)
		key := name
		if i.due == "" {
			key += ", " + i.by
		}
		rare := i.suffix == deadSuffix // a Worker does without it
		generated := fmt.Sprintf("ADD COLUMN %s %s GENERATED ALWAYS AS (%s) STORED INVISIBLE", name, sqlType, expression)
		parts = append(parts,
			part{column: name, sql: generated, dispensable: rare},
			part{index: name, sql: fmt.Sprintf("ADD INDEX %s (%s)", name, key), dispensable: rare})
	}
	return parts
}

// mend repeats all that the column has, because what MODIFY leaves out is lost.
func (mysql) mend(b *builder, _ column, f found, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	all := []string{strings.TrimSuffix(f.sqlType, ")")}
	for _, word := range words {
		all = append(all, literal(word))
	}
	return []string{"MODIFY COLUMN " + b.status + " " + strings.Join(all, ",") + ")" + f.more}
}

// picker locks the rows in the order of the index: without the index, all rows that are
// looked at would be locked. The UPDATE has the condition again, in case there is no
// transaction, in a form for which no index is used.
func (d mysql) picker(p *picking) (run picker, look string) {
	from, condition, order := p.through(p.from)
	if p.from.due != "" {
		condition = order + " <= " + p.instants.now
	}
	ids := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %s", p.id, from, p.conditions(condition), order, someRows)
	}
	look = ids(from)
	return mysqlPicker{
		first: d.bind(look),
		these: d.bind(ids(p.table)),
		lock:  p.lock(),
		update: d.bind(fmt.Sprintf("UPDATE %s SET %s WHERE CASE WHEN %s THEN 1 END = 1 AND %s IN ",
			p.table, p.assignments, condition, p.id)),
		read: fmt.Sprintf("SELECT %s FROM %s WHERE %s IN ", p.returning, p.table, p.id),
	}, look
}

func (mysql) share(micros string) string { return "FLOOR(RAND() * " + micros + ")" }

func (mysql) asText(column string) string { return "CAST(" + column + " AS char)" }

func (mysql) lock() string { return " FOR UPDATE SKIP LOCKED" }

// mysqlPicker locks rows, updates them and reads them, with a statement for each step.
type mysqlPicker struct {
	first  query  // the IDs of the rows of the index
	these  query  // those with some IDs: the index has others before them
	lock   string // what follows to lock them
	update query  // up to the list of IDs
	read   string // up to the list of IDs
}

// pick begins a transaction only if it sees rows to pick, and then picks no more than it saw:
// a statement also locks the next row after its last one.
func (m mysqlPicker) pick(ctx context.Context, db DB, some narrowing, scan func(*sql.Rows) error) error {
	found := m.first
	if some.these() {
		found = m.these
	}
	if _, ok := db.(Beginner); ok {
		sql, args := some.of(found)
		seen, err := some.b.ids(ctx, db, sql, args...)
		if err != nil || len(seen) == 0 {
			return err
		}
		some.N = len(seen)
	}
	return InTx(ctx, db, func(db DB) error {
		sql, args := some.of(query{found.sql + m.lock, found.order})
		ids, err := some.b.ids(ctx, db, sql, args...)
		if err != nil || len(ids) == 0 {
			return err
		}
		in := mysqlList(len(ids))
		changed, err := query{sql: m.update.sql + in}.change(ctx, db, append(m.update.ordered(some.args), ids...))
		if err != nil {
			return err
		}
		if changed != int64(len(ids)) {
			return errNoTx
		}
		return each(ctx, db, scan, m.read+in, ids...)
	})
}

// mysqlList is a list of parameters.
func mysqlList(n int) string {
	return "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")"
}

// grouper has one UPDATE for all rows, if that writes the same into each.
func (d mysql) grouper(b *builder, u *Update, assignments assignments) grouper {
	values := 0
	changes := assignments(func() string {
		values++
		return "?"
	})
	if u.NArgs > 0 || values > u.same {
		return b.locking()
	}
	return b.together(changes, d.lock())
}

// together locks rows, and makes the same changes in all of them.
func (b *builder) together(changes, lock string) lockedGroup {
	g := b.locking()
	g.locked.lock = lock
	g.together = fmt.Sprintf("UPDATE %s SET %s WHERE %s IN ", b.table, changes, b.id)
	return g
}

// extender locks the row first, because the instant of a statement is the one before it
// waits for a lock.
func (mysql) extender(b *builder, longer assignments) updater {
	return mysqlExtend{b.together(longer(func() string { return "?" }), " FOR UPDATE")}
}

// mysqlExtend is a group of one row. An UPDATE does not count a row whose lease had the same end before.
type mysqlExtend struct{ lockedGroup }

func (m mysqlExtend) update(ctx context.Context, db DB, c *Change) (held bool, err error) {
	all, err := m.updateAll(ctx, db, []*Change{c})
	return err == nil && all[0], err
}

// inspection has the rest of the definition of an enum. MariaDB says of a default what SQL it is, and
// MySQL what value it is.
func (mysql) inspection(b *builder) inspection {
	schema, name := b.schemaAndName()
	return inspection{
		args: []any{sql.NullString{String: schema, Valid: schema != ""}, name},
		columns: `SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'NO', 0, PRIVILEGES LIKE '%select%', PRIVILEGES LIKE '%update%',
	CASE WHEN DATA_TYPE = 'enum' THEN COLUMN_TYPE ELSE '' END, coalesce(CHARACTER_MAXIMUM_LENGTH, -1),
	coalesce(CHARACTER_SET_NAME, ''), coalesce(right(COLLATION_NAME, 3) = '_ci', 0),
	coalesce(concat(' CHARACTER SET ', CHARACTER_SET_NAME, ' COLLATE ', COLLATION_NAME, CASE WHEN IS_NULLABLE = 'NO' THEN ' NOT NULL' ELSE '' END,
		CASE WHEN COLUMN_DEFAULT IS NULL OR COLUMN_DEFAULT = CAST('NULL' AS binary) THEN ''
			ELSE concat(' DEFAULT ', CASE WHEN COLUMN_DEFAULT LIKE '''%' THEN COLUMN_DEFAULT ELSE quote(COLUMN_DEFAULT) END) END,
		CASE WHEN COLUMN_COMMENT = '' THEN '' ELSE concat(' COMMENT ', quote(COLUMN_COMMENT)) END), '')
	FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ?`,
		table: `SELECT coalesce(CREATE_OPTIONS LIKE '%partitioned%', 0), 0, coalesce(ENGINE, TABLE_TYPE)
	FROM information_schema.TABLES WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ?`,
		indexes: `SELECT INDEX_NAME, '', CASE WHEN max(NON_UNIQUE) = 0 AND count(*) = 1 AND max(SUB_PART) IS NULL THEN max(COLUMN_NAME) END
	FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ? GROUP BY INDEX_NAME`,
	}
}

// mysqlType matches the part of a type that matters here.
var mysqlType = regexp.MustCompile(`^[a-z]+`)

var mysqlTypes = map[string]content{
	"varchar": aStatus | aKind | aText, "text": aStatus | aKind | aText, "mediumtext": aStatus | aKind | aText,
	"longtext": aStatus | aKind | aText, "char": aStatus | aKind, "tinytext": aStatus | aKind, "enum": aStatus | aKind,
	"json": aKind,
}

func (mysql) takes(f found) content {
	base := mysqlType.FindString(f.sqlType)
	switch takes := mysqlTypes[base]; {
	case strings.HasSuffix(base, "int"):
		return anInteger
	case f.charset != "utf8mb4":
		return takes &^ aText
	default:
		return takes
	}
}

func (d mysql) instantMisfit(b *builder, name string, f found) string {
	base := mysqlType.FindString(f.sqlType)
	if b.instants.column == base || b.instants.column == f.sqlType {
		return ""
	}
	misfit := "is " + f.sqlType + ", but Instants wants " + b.instants.column
	if b.instants.column != "datetime(6)" || strings.HasSuffix(base, "int") { // nobody knows what it counts
		return misfit
	}
	zone := ""
	if base == "timestamp" { // it is shown in the time zone of the session
		zone = "SET time_zone = '+00:00'; "
	}
	return misfit + fmt.Sprintf("; to convert it: %sALTER TABLE %s MODIFY COLUMN %s datetime(6)", zone, b.table, d.quote(name))
}

package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
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

func (mysql) altering(b *builder, sql []string) []string {
	switch len(sql) {
	case 0:
		return nil
	case 1:
		return []string{"ALTER TABLE " + b.table + " " + sql[0]}
	default:
		return []string{"ALTER TABLE " + b.table + "\n\t" + strings.Join(sql, ",\n\t")}
	}
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
	from, condition, order := d.through(p.builder, p.from)
	if p.from.due != "" {
		condition = order + " <= " + p.instants.now
	}
	lock := d.lock()
	if p.waits {
		lock = strings.Replace(lock, " SKIP LOCKED", "", 1)
	}
	ids := func(from string) string {
		return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %s", p.id, from, p.conditions(condition), order, someRows)
	}
	found := func(ids string) mysqlFound { return mysqlFound{d.bind(ids), d.bind(ids + lock)} }
	look = ids(from)
	return mysqlPicker{
		first: found(look),
		these: found(ids(p.table)),
		update: d.bind(fmt.Sprintf("UPDATE %s SET %s WHERE CASE WHEN %s THEN 1 END = 1 AND %s IN ",
			p.table, p.assignments, condition, p.id)),
		read: fmt.Sprintf("SELECT %s FROM %s WHERE %s IN ", p.returning, p.table, p.id),
	}, look
}

func (d mysql) through(b *builder, i index) (from, rows, order string) {
	if i.suffix == "" {
		return i.plainly(b)
	}
	column, _, _ := d.generated(b, i)
	from = fmt.Sprintf("%s FORCE INDEX (%s)", b.table, column)
	if i.due == "" {
		return from, column + " = 1", i.by
	}
	return from, column + " IS NOT NULL", column
}

func (mysql) byIDs(b *builder, looked string) string { return b.joined(looked) }

func (mysql) share(micros string) string { return "FLOOR(RAND() * " + micros + ")" }

func (mysql) asText(column string) string { return "CAST(" + column + " AS char)" }

func (mysql) lock() string { return " FOR UPDATE SKIP LOCKED" }

// mysqlPicker locks rows, updates them and reads them, with a statement for each step.
type mysqlPicker struct {
	first  mysqlFound // of the index
	these  mysqlFound // those with some IDs: the index has others before them
	update query      // up to the list of IDs
	read   string     // up to the list of IDs
}

// mysqlFound are queries of the IDs of rows.
type mysqlFound struct{ look, lock query }

// pick begins a transaction only if it sees rows to pick, and then picks no more than it saw:
// a statement also locks the next row after its last one.
func (m mysqlPicker) pick(ctx context.Context, db DB, some narrowing, scan func(*sql.Rows) error) error {
	found := m.first
	if some.these() {
		found = m.these
	}
	if _, ok := db.(beginner); ok {
		sql, args := some.of(found.look)
		seen, err := some.table.ids(ctx, db, sql, args...)
		if err != nil || len(seen) == 0 {
			return err
		}
		some.N = len(seen)
	}
	return InTx(ctx, db, func(db DB) error {
		sql, args := some.of(found.lock)
		ids, err := some.table.ids(ctx, db, sql, args...)
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
	return mysqlGroup{fmt.Sprintf("UPDATE %s SET %s WHERE %s IN ", b.table, changes, b.id), b.locking()}
}

// mysqlGroup locks the rows of a group, and updates them with one statement.
type mysqlGroup struct {
	sql string // up to the list of IDs

	oneByOne // which locks the rows
}

func (g mysqlGroup) updateAll(ctx context.Context, db DB, all []*Change) (held []bool, err error) {
	err = InTx(ctx, db, func(db DB) error {
		if held, err = g.locked.Held(ctx, db, all); err != nil {
			return err
		}
		var ids []any
		for i, c := range all {
			if held[i] {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		_, err := query{sql: g.sql + mysqlList(len(ids))}.change(ctx, db, slices.Concat(all[0].values, ids))
		return err
	})
	return held, err
}

// extender locks the row first, because the instant of a statement is the one before it
// waits for a lock.
func (d mysql) extender(b *builder, longer assignments) updater {
	return mysqlExtend{
		table:  b.Table,
		lock:   d.bind(fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE", b.id, b.table, b.held(numbered(1)))),
		extend: d.bind(fmt.Sprintf("UPDATE %s SET %s WHERE %s = $2", b.table, longer(numbered(0)), b.id)),
	}
}

// mysqlExtend locks a row and extends its lease.
type mysqlExtend struct {
	table  *Table
	lock   query
	extend query
}

// update looks whether there is a row to lock: an UPDATE does not count a row whose lease had
// the same end before.
func (m mysqlExtend) update(ctx context.Context, db DB, args []any) (held bool, err error) {
	err = InTx(ctx, db, func(db DB) error {
		locked, err := m.table.ids(ctx, db, m.lock.sql, m.lock.ordered(args)...)
		if err != nil || len(locked) == 0 {
			return err
		}
		held = true
		_, err = m.extend.change(ctx, db, args)
		return err
	})
	return held, err
}

const mysqlColumns = `SELECT c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE = 'NO', c.PRIVILEGES,
	coalesce(c.COLLATION_NAME, ''), coalesce(c.CHARACTER_SET_NAME, ''), c.COLUMN_DEFAULT, c.COLUMN_COMMENT,
	coalesce(c.CHARACTER_MAXIMUM_LENGTH, -1), coalesce(t.ENGINE, ''), coalesce(t.CREATE_OPTIONS LIKE '%partitioned%', 0) FROM information_schema.COLUMNS c
	JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
	WHERE c.TABLE_SCHEMA = coalesce(?, DATABASE()) AND c.TABLE_NAME = ?`

const mysqlIndexes = `SELECT INDEX_NAME, max(NON_UNIQUE) = 0 AND count(*) = 1 AND max(SUB_PART) IS NULL, max(COLUMN_NAME)
	FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ? GROUP BY INDEX_NAME`

func (d mysql) inspect(ctx context.Context, db DB, c *Comparison) error {
	in, name := c.schemaAndName()
	schema := sql.NullString{String: in, Valid: in != ""}
	var engine string
	err := each(ctx, db, func(rows *sql.Rows) error {
		var f found
		var column, privileges, collation, comment string
		var dflt sql.NullString
		err := rows.Scan(&column, &f.sqlType, &f.notNull, &privileges, &collation, &f.charset, &dflt, &comment, &f.length, &engine, &c.partitioned)
		for _, privilege := range []string{"SELECT", "UPDATE"} {
			if !strings.Contains(privileges, strings.ToLower(privilege)) {
				f.lacks = append(f.lacks, privilege)
			}
		}
		if strings.HasPrefix(f.sqlType, "enum(") {
			f.words = mysqlWords(f.sqlType)
			f.more = mysqlRest(f.charset, collation, f.notNull, dflt, comment)
		}
		if d.fold(column) == d.fold(c.Columns.Status) && strings.HasSuffix(collation, "_ci") {
			c.distinct()
		}
		c.found[d.fold(column)] = f
		return err
	}, mysqlColumns, schema, name)
	if err != nil || len(c.found) == 0 {
		return err
	}
	if engine != "InnoDB" {
		c.misfit("Name", c.Name, "is of the engine "+engine+", and must be InnoDB: others do not lock rows")
	}
	return each(ctx, db, func(rows *sql.Rows) error {
		var index, column string
		var unique bool
		err := rows.Scan(&index, &unique, &column)
		c.built[index] = ""
		if unique {
			f := c.found[d.fold(column)]
			f.unique = true
			c.found[d.fold(column)] = f
		}
		return err
	}, mysqlIndexes, schema, name)
}

// mysqlRest is what follows the type in the definition of a column. MariaDB says of a
// default what SQL it is, and MySQL what value it is.
func mysqlRest(charset, collation string, notNull bool, dflt sql.NullString, comment string) string {
	rest := " CHARACTER SET " + charset + " COLLATE " + collation
	if notNull {
		rest += " NOT NULL"
	}
	switch value := dflt.String; {
	case !dflt.Valid || value == "NULL":
	case strings.HasPrefix(value, "'"):
		rest += " DEFAULT " + value
	default:
		rest += " DEFAULT " + literal(value)
	}
	if comment != "" {
		rest += " COMMENT '" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(comment) + "'"
	}
	return rest
}

// distinct reports words that differ in nothing but capitals.
func (c *Comparison) distinct() {
	seen := map[string]string{}
	for _, word := range c.Statuses.all() {
		folded := strings.ToLower(word)
		if other, ok := seen[folded]; ok && other != word {
			c.misfit("Columns.Status", c.Columns.Status, fmt.Sprintf("has a collation to which %q is %q", word, other))
		}
		seen[folded] = word
	}
}

// mysqlWords reads the words of an enum from its type: "enum('ready','it”s done')".
func mysqlWords(sqlType string) (words []string) {
	for _, literal := range regexp.MustCompile(`'(?:[^']|'')*'`).FindAllString(sqlType, -1) {
		words = append(words, strings.ReplaceAll(literal[1:len(literal)-1], "''", "'"))
	}
	return words
}

// mysqlType matches the part of a type that matters here.
var mysqlType = regexp.MustCompile(`^[a-z]+`)

func (mysql) takes(f found) content {
	switch base := mysqlType.FindString(f.sqlType); base {
	case "varchar", "text", "mediumtext", "longtext":
		if f.charset == "utf8mb4" {
			return aStatus | aKind | aText
		}
		return aStatus | aKind
	case "char", "tinytext", "enum":
		return aStatus | aKind
	case "json":
		return aKind
	default:
		if strings.HasSuffix(base, "int") {
			return anInteger
		}
		return 0
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

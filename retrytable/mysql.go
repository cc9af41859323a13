package retrytable

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

func (mysql) name() string { return "MySQL" }

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

// parts are clauses of one statement, which copies the table once. There is no IF NOT
// EXISTS.
func (d mysql) parts(b *builder) []part {
	parts := b.added("varchar(255)", mysqlText, "bigint", " DEFAULT ("+b.instants.now+")")
	for i := range parts {
		parts[i].sql = "ADD COLUMN " + parts[i].sql
	}
	for _, i := range b.indexes() {
		name, sqlType, expression := d.generated(b, i)
		key := name
		if i.due == "" {
			key += ", " + b.orderBy
		}
		parts = append(parts,
			part{column: name, sql: fmt.Sprintf("ADD COLUMN %s %s GENERATED ALWAYS AS (%s) STORED INVISIBLE", name, sqlType, expression)},
			part{index: name, sql: fmt.Sprintf("ADD INDEX %s (%s)", name, key)})
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

// words repeats all that the column has, because what MODIFY leaves out is lost.
func (mysql) words(b *builder, f found, words []string) []string {
	all := []string{strings.TrimSuffix(f.sqlType, ")")}
	for _, word := range words {
		all = append(all, literal(word))
	}
	return []string{"MODIFY COLUMN " + b.status + " " + strings.Join(all, ",") + ")" + f.more}
}

// pick locks the rows, in the order of the index and no others: without the index, all
// rows that are looked at would be locked. The UPDATE checks the condition again, in case
// there is no transaction, in a form for which no index is used.
func (d mysql) pick(b *builder, p *picking) statement {
	column, _, _ := d.generated(b, p.from)
	condition, order := column+" = 1", b.orderBy
	if p.from.due != "" {
		condition, order = column+" <= "+b.instants.now, column
	}
	return statement{
		name: p.name, args: p.args,
		query: d.bind(fmt.Sprintf("SELECT %s FROM %s FORCE INDEX (%s) WHERE %s ORDER BY %s LIMIT %s",
			b.id, b.table, column, p.conditions(condition), order, someRows)),
		tail: d.lock(),
		update: d.bind(fmt.Sprintf("UPDATE %s SET %s WHERE CASE WHEN %s THEN 1 END = 1 AND %s IN ",
			b.table, p.assignments, condition, b.id)),
		read: d.bind(fmt.Sprintf("SELECT %s FROM %s WHERE %s IN ", p.returning, b.table, b.id)),
	}
}

func (mysql) lock() string { return " FOR UPDATE SKIP LOCKED" }

// group has one UPDATE write all rows, which are locked already, if it writes the same into
// each.
func (d mysql) group(b *builder, s *statement, assignments func(parameter func() string) string) {
	parameters := 0
	changes := d.bind(assignments(func() string {
		parameters++
		return "?"
	}))
	if s.args == 0 && parameters == s.whole {
		s.all = fmt.Sprintf("UPDATE %s SET %s WHERE %s IN ", b.table, changes.sql, b.id)
	}
}

// extend locks the row first, because the instant of a statement is that before it waits
// for a lock. It also tells a lease that has that end already from one that is lost.
func (d mysql) extend(b *builder) statement {
	s := statement{
		name: "extend", whole: 1,
		query: d.bind(fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE", b.id, b.table, b.held(numbered(1)))),
		update: d.bind(fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = $2",
			b.table, b.leaseUntil, b.instants.after("$1"), b.id)),
	}
	d.group(b, &s, func(parameter func() string) string { return b.leaseUntil + " = " + b.instants.after(parameter()) })
	return s
}

const mysqlColumns = `SELECT c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE = 'NO', c.PRIVILEGES,
	coalesce(c.COLLATION_NAME, ''), coalesce(c.CHARACTER_SET_NAME, ''), c.COLUMN_DEFAULT, c.COLUMN_COMMENT,
	coalesce(c.CHARACTER_MAXIMUM_LENGTH, -1), coalesce(t.ENGINE, '') FROM information_schema.COLUMNS c
	JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
	WHERE c.TABLE_SCHEMA = coalesce(?, DATABASE()) AND c.TABLE_NAME = ?`

const mysqlIndexes = `SELECT INDEX_NAME, max(NON_UNIQUE) = 0 AND count(*) = 1 AND max(SUB_PART) IS NULL, max(COLUMN_NAME)
	FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ? GROUP BY INDEX_NAME`

func (d mysql) inspect(ctx context.Context, db DB, c *checker) error {
	schema, name := sql.NullString{}, c.name
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		schema, name = sql.NullString{String: name[:dot], Valid: true}, name[dot+1:]
	}
	var engine string
	err := each(ctx, db, func(rows *sql.Rows) error {
		var f found
		var column, privileges, collation, comment string
		var dflt sql.NullString
		err := rows.Scan(&column, &f.sqlType, &f.notNull, &privileges, &collation, &f.charset, &dflt, &comment, &f.length, &engine)
		for _, privilege := range []string{"SELECT", "UPDATE"} {
			if !strings.Contains(privileges, strings.ToLower(privilege)) {
				f.lacks = append(f.lacks, privilege)
			}
		}
		if strings.HasPrefix(f.sqlType, "enum(") {
			f.words = mysqlWords(f.sqlType)
			f.more = mysqlRest(f.charset, collation, f.notNull, dflt, comment)
		}
		if d.fold(column) == d.fold(c.columns.Status) && strings.HasSuffix(collation, "_ci") {
			c.distinct()
		}
		c.found[d.fold(column)] = f
		return err
	}, mysqlColumns, schema, name)
	if err != nil || len(c.found) == 0 {
		return err
	}
	if engine != "InnoDB" {
		c.fault("Name", c.name, "is of the engine "+engine+", and must be InnoDB: others do not lock rows")
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
func (c *checker) distinct() {
	seen := map[string]string{}
	for _, word := range c.statuses.all() {
		folded := strings.ToLower(word)
		if other, ok := seen[folded]; ok && other != word {
			c.fault("Columns.Status", c.columns.Status, fmt.Sprintf("has a collation to which %q is %q", word, other))
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

// mysqlType matches the parts of a type that matter here.
var mysqlType = regexp.MustCompile(`^[a-z]+`)

func (mysql) convert(*builder, column, found) []string { return nil }

func (mysql) misfit(b *builder, column column, f found) string {
	base := mysqlType.FindString(f.sqlType)
	switch column.field {
	case "ID":
		return ""
	case "Status", "Kind":
		if column.field == "Kind" && base == "json" {
			return ""
		}
		if !slices.Contains([]string{"varchar", "char", "text", "tinytext", "mediumtext", "longtext", "enum"}, base) {
			return "is " + f.sqlType + ", and must be text or an enum"
		}
	case "Error":
		if !slices.Contains([]string{"varchar", "text", "mediumtext", "longtext"}, base) || f.charset != "utf8mb4" {
			return fmt.Sprintf("is %s %s, and must be %s", f.sqlType, f.charset, mysqlText)
		}
	case "Due", "Lease", "First":
		if b.instants.column == base || b.instants.column == f.sqlType {
			return ""
		}
		misfit := "is " + f.sqlType + ", but Instants wants " + b.instants.column
		if b.instants.column != "datetime(6)" || strings.HasSuffix(base, "int") { // which counts what?
			return misfit
		}
		zone := ""
		if base == "timestamp" { // which shows the time in the zone of the session
			zone = "SET time_zone = '+00:00'; "
		}
		return misfit + fmt.Sprintf("; to convert it: %sALTER TABLE %s MODIFY COLUMN %s datetime(6)", zone, b.table, quoted("`", column.name))
	default:
		if !strings.HasSuffix(base, "int") {
			return "is " + f.sqlType + ", and must be an integer"
		}
	}
	return ""
}

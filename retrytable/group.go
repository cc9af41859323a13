package retrytable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostGrouped is how many rows one statement changes: enough for the costs of a statement
// not to count, and few enough for nobody to wait for it.
const mostGrouped = 1000

// like reports whether f and other can be one statement.
func (f *finishing[ID]) like(other *finishing[ID]) bool {
	return f.statement == other.statement && slices.Equal(f.ours[:f.whole], other.ours[:f.whole])
}

// storeAll runs the same statement for several rows, without those that somebody else has
// locked, and says which rows it has written: of the others, the caller has lost the lease,
// or the lock is somebody else's. There are three forms of it:
//
//   - One statement has lists of all arguments, and returns the places of its rows in them.
//   - A transaction locks the rows, and writes them with one statement if that writes the
//     same into each.
//   - A transaction has a statement for each row.
func storeAll[ID any](ctx context.Context, db DB, q *holding, all []*finishing[ID]) (held []bool, err error) {
	s := all[0].statement
	if args, ok := lists(all); ok {
		held = make([]bool, len(all))
		places, err := queryAll(ctx, db, s.group, args, scanID[int])
		for _, place := range places {
			held[place-1] = true
		}
		return held, s.failed(err)
	}
	err = inTx(ctx, db, func(db DB) error {
		if held, err = lockAll(ctx, db, q, all); err != nil {
			return s.failed(err)
		}
		if s.all != "" {
			var ids []ID
			for i, f := range all {
				if held[i] {
					ids = append(ids, f.lease.ID)
				}
			}
			if len(ids) == 0 {
				return nil
			}
			in, args := inList(ids)
			_, err := change(ctx, db, s.all+in, append(slices.Clip(all[0].ours), args...))
			return s.failed(err)
		}
		for i, f := range all {
			if !held[i] {
				continue
			}
			err := f.exec(ctx, db)
			if err != nil && !errors.Is(err, ErrLeaseLost) {
				return err
			}
			held[i] = err == nil
		}
		return nil
	})
	return held, err
}

// lockAll locks rows, as far as nobody else has locked them. SQLite has locked all already.
func lockAll[ID any](ctx context.Context, db DB, q *holding, all []*finishing[ID]) (held []bool, err error) {
	if q.lock == "" {
		return slices.Repeat([]bool{true}, len(all)), nil
	}
	return holds(ctx, db, q, all, q.lock)
}

// holding is the query of rows whose leases are somebody's.
type holding struct {
	sql  string
	bind func(string) query
	lock string // follows the query, so that it locks the rows that nobody else has locked
}

// holds says of which rows the caller still has the lease.
func holds[ID any](ctx context.Context, db DB, q *holding, all []*finishing[ID], lock string) (held []bool, err error) {
	type row struct {
		id    string
		fence int64
	}
	var ids []any
	for _, f := range all {
		ids = append(ids, f.lease.ID)
	}
	found := map[row]bool{}
	_, err = queryAll(ctx, db, q.bind(q.sql+"("+numbers(0, len(ids))+")"+lock).sql, padded(ids),
		func(rows *sql.Rows) (r row, err error) {
			var id ID
			err = rows.Scan(&id, &r.fence)
			r.id = keyOf(id)
			found[r] = true
			return r, err
		})
	held = make([]bool, len(all))
	for i, f := range all {
		held[i] = found[row{keyOf(f.lease.ID), f.lease.Fence}]
	}
	return held, err
}

// keyOf is what tells an ID from others, of whatever type it is.
func keyOf(id any) string {
	value, err := driver.DefaultParameterConverter.ConvertValue(id)
	if err != nil {
		return fmt.Sprint(id)
	}
	if bytes, ok := value.([]byte); ok {
		return string(bytes)
	}
	return fmt.Sprint(value)
}

// lists returns the arguments of a group, each a list of those of all rows, if there is a
// form for it.
func lists[ID any](all []*finishing[ID]) (args []any, ok bool) {
	s := all[0].statement
	if s.group == "" {
		return nil, false
	}
	columns := make([]array, 2+len(all[0].ours)-s.whole)
	for _, f := range all {
		columns[0].add(f.lease.ID)
		columns[1].add(f.lease.Fence)
		for i, value := range f.ours[s.whole:] {
			columns[2+i].add(value)
		}
	}
	for i := range columns[:2] {
		args = append(args, columns[i].String())
	}
	args = append(args, all[0].ours[:s.whole]...)
	for i := range columns[2:] {
		args = append(args, columns[2+i].String())
	}
	for i := range columns {
		if columns[i].unfit {
			return nil, false
		}
	}
	return args, true
}

// array is a list as PostgreSQL reads it.
type array struct {
	text  strings.Builder
	unfit bool // something has no text of which the type does not matter
}

// add adds a number, a text, or what becomes one of them for the driver.
func (a *array) add(value any) {
	if a.text.Len() > 0 {
		a.text.WriteByte(',')
	}
	value, err := driver.DefaultParameterConverter.ConvertValue(value)
	switch value := value.(type) {
	case int64:
		a.text.Write(strconv.AppendInt(nil, value, 10))
	case string:
		a.text.WriteByte('"')
		_, _ = arrayEscapes.WriteString(&a.text, value)
		a.text.WriteByte('"')
	case nil:
		a.text.WriteString("NULL")
		a.unfit = a.unfit || err != nil
	default:
		a.unfit = true
	}
}

var arrayEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// String returns the array.
func (a *array) String() string { return "{" + a.text.String() + "}" }

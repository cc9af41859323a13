package retrytable

import (
	"context"
	"database/sql/driver"
	"errors"
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

// storeAll runs the same statement for several rows, and says of which rows the caller
// still has the lease, or of none if it cannot say. There are three forms of it:
//
//   - One statement has lists of all arguments, and returns the places of its rows in them.
//   - A transaction locks all rows, and writes them with one statement if that writes the
//     same into each.
//   - A transaction has a statement for each row.
func storeAll[ID any](ctx context.Context, db DB, all []*finishing[ID]) (held []bool, err error) {
	held = make([]bool, len(all))
	s := all[0].statement
	if args, ok := lists(all); ok {
		places, err := queryAll(ctx, db, s.group, args, scanID[int])
		for _, place := range places {
			held[place-1] = true
		}
		return held, s.failed(err)
	}
	err = inTx(ctx, db, func(db DB) error {
		if s.lock != "" {
			rows, args := pairs(all)
			locked, err := queryAll(ctx, db, s.lock+rows+" FOR UPDATE SKIP LOCKED", args, scanID[any])
			if err != nil || len(locked) < len(all) {
				return s.failed(err)
			}
			if s.all != "" {
				_, err := change(ctx, db, s.all+rows, append(slices.Clip(all[0].ours), args...))
				for i := range held {
					held[i] = err == nil
				}
				return s.failed(err)
			}
		}
		for i, f := range all {
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

// pairs returns the condition of the rows, with its arguments.
func pairs[ID any](all []*finishing[ID]) (condition string, args []any) {
	for _, f := range all {
		args = append(args, f.lease.ID, f.lease.Fence)
	}
	each := all[0].pair
	return "(" + strings.TrimSuffix(strings.Repeat(each+" OR ", len(all)), " OR ") + ")", args
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

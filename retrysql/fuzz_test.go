package retrysql_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrysql/internal/fake/mysql"
	modernc "github.com/seed-5ff3c98e/retry/retrysql/internal/fake/sqlite"
)

// hostileError panics in every method that is asked for.
type hostileError struct{}

func (hostileError) Error() string    { panic("Error") }
func (hostileError) SQLState() string { panic("SQLState") }
func (hostileError) Is(error) bool    { panic("Is") }
func (hostileError) Unwrap() []error  { panic("Unwrap") }

// hostileStateError panics when its text is asked for.
type hostileStateError string

func (hostileStateError) Error() string      { panic("Error") }
func (e hostileStateError) SQLState() string { return string(e) }

// listError cannot be compared.
type listError []string

func (listError) Error() string { return "list" }

// loopError wraps itself.
type loopError struct{ _ int }

func (e *loopError) Error() string { return "loop" }
func (e *loopError) Unwrap() error { return e }

// leaves are errors without a cause: those of the table, and worse ones.
func leaves() []error {
	errs := []error{
		nil,
		&loopError{},
		hostileError{},
		hostileStateError("0A000"), hostileStateError("P0001"),
		listError{},
		(*pgError)(nil),
		(*mysql.MySQLError)(nil), (*modernc.Error)(nil), io.EOF, syscall.ECONNRESET, syscall.ECONNREFUSED,
	}
	for _, group := range classified {
		for _, category := range slices.Sorted(maps.Keys(group.errs)) {
			errs = append(errs, group.errs[category])
		}
	}
	return errs
}

var allLeaves = leaves()

// tree reads an error tree from bytes. Arrange puts the legs of joins in another
// order; nodes is how many there may be.
func tree(data *[]byte, nodes *int, arrange func([]error)) error {
	*nodes--
	if len(*data) < 2 || *nodes <= 0 {
		return nil
	}
	kind, detail := (*data)[0], (*data)[1]
	*data = (*data)[2:]
	switch kind % 8 {
	case 0, 1:
		legs := make([]error, detail%5)
		for i := range legs {
			legs[i] = tree(data, nodes, arrange)
		}
		arrange(legs)
		return errors.Join(legs...)
	case 2:
		return fmt.Errorf("x: %w", tree(data, nodes, arrange))
	case 3:
		return badConnError{tree(data, nodes, arrange)}
	case 4:
		return retry.Mark(tree(data, nodes, arrange), retry.Verdict{Class: retry.Class(detail % 4), Category: "mark"})
	case 5:
		n := min(int(detail), len(*data))
		text := string((*data)[:n])
		*data = (*data)[n:]
		return errors.New(text)
	default:
		return allLeaves[(int(kind)/8<<8+int(detail))%len(allLeaves)]
	}
}

func checkTree(t *testing.T, data []byte) {
	t.Helper()
	build := func(arrange func([]error)) error {
		rest, nodes := data, 60
		return tree(&rest, &nodes, arrange)
	}
	err := build(func([]error) {})
	v := retrysql.Classify(err)
	assert.LessOrEqual(t, v.Class, retry.RateLimited)
	assert.GreaterOrEqual(t, v.After, v.After.Abs(), "not negative")
	assert.Equal(t, v, retrysql.Classify(err), "again")
	assert.Equal(t, v, retrysql.Classify(build(slices.Reverse[[]error])), "reversed")
	assert.Equal(t, v, retrysql.Classify(build(func(legs []error) {
		rand.Shuffle(len(legs), func(i, j int) { legs[i], legs[j] = legs[j], legs[i] })
	})), "mixed")
	if err == nil {
		assert.Zero(t, v)
		return
	}
	assert.Equal(t, v, retrysql.Classify(errors.Join(nil, errBusiness, fmt.Errorf("x: %w", err))), "in company")
	assert.Equal(t, v, retrysql.Classify(errors.Join(err, err)), "twice")
	assert.Equal(t, retry.Verdict{Class: retry.Final}, retrysql.Classify(retry.MarkFinal(err)), "marked")
}

// TestClassifyRandomTrees is the fuzz test with trees that it rarely finds in the
// time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		data := make([]byte, r.IntN(50))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkTree(t, data)
		if t.Failed() {
			return // one counterexample is enough to read
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 2, 6, 30, 6, 90})                           // two known errors
	f.Add([]byte{2, 0, 3, 0, 6, 8})                             // a chain
	f.Add([]byte("\x05\x20Error 1213 (40001): Deadlock found")) // texts
	f.Add([]byte("\x05\x28database is locked (517) (SQLITE_BUSY)"))
	f.Add([]byte{0, 3, 6, 1, 6, 2, 6, 3}) // panics
	f.Add([]byte{0, 2, 4, 2, 6, 40, 4, 3, 6, 50})
	f.Fuzz(func(t *testing.T, data []byte) { checkTree(t, data) })
}

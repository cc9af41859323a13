package retrysql_test

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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

// leaves has errors without a cause: the errors of the table, and hostile ones.
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

// kinds has the parts of random error trees. A byte does not reach all of the
// leaves.
var kinds = testkit.Kinds{
	Leaves: []func(detail byte) error{
		func(detail byte) error { return allLeaves[int(detail)%len(allLeaves)] },
		func(detail byte) error { return allLeaves[(256+int(detail))%len(allLeaves)] },
	},
	Wraps: []func(detail byte, cause error) error{
		func(_ byte, cause error) error { return fmt.Errorf("x: %w", cause) },
		func(_ byte, cause error) error { return badConnError{cause} },
		func(detail byte, cause error) error {
			return retry.Mark(cause, retry.Verdict{Class: retry.Class(detail % 4), Category: "mark"})
		},
	},
}

func checkTree(t *testing.T, data []byte) {
	t.Helper()
	tree := kinds.Tree(data)
	tree.Check(t, retrysql.Classify)
	assert.LessOrEqual(t, retrysql.Classify(tree.Err()).Class, retry.RateLimited)
}

// TestClassifyRandomTrees is the fuzz test with trees that it rarely finds in the
// time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, len(allLeaves), 512, "two functions are enough")
	testkit.Random(t, 3000, func(data []byte) { checkTree(t, data) })
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{192, 2, 0, 30, 0, 90})                         // two known errors
	f.Add([]byte{81, 0, 82, 0, 0, 8})                           // a chain
	f.Add([]byte("\x4c\x20Error 1213 (40001): Deadlock found")) // texts
	f.Add([]byte("\x4c\x28database is locked (517) (SQLITE_BUSY)"))
	f.Add([]byte{192, 3, 0, 1, 0, 2, 0, 3}) // panics
	f.Add([]byte{192, 2, 80, 2, 0, 40, 80, 3, 0, 50})
	f.Fuzz(func(t *testing.T, data []byte) { checkTree(t, data) })
}

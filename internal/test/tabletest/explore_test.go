package tabletest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// exploredTables are the tables that are explored.
var exploredTables = map[string]func() *retrytable.Table[int64]{
	"due":     func() *retrytable.Table[int64] { return &retrytable.Table[int64]{} },
	"ordered": func() *retrytable.Table[int64] { return &retrytable.Table[int64]{OrderBy: "id"} },
}

// Whatever two workers do with two rows, in whatever order, and whatever is lost on the
// way, the four properties hold. All states are looked at, and not only those up to some
// number of steps.
func TestExplore(t *testing.T) {
	t.Parallel()
	for name, table := range exploredTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExplorer(t, table(), nil)
			found := e.explore(0)
			assert.Empty(t, found)
			for _, want := range []string{"late", "swept", "answer lost", "both done", "dead", "at its limit"} {
				assert.True(t, e.seen[want], "no state was reached that is: %s", want)
			}
			t.Logf("%d states, at most %d steps from the first; %d statements", len(e.states), e.depth, len(e.known))
		})
	}
}

// mutant is a fault in a statement, and the property that it must break.
type mutant struct {
	name   string
	table  string // of exploredTables
	breaks property
	which  string // is found in the statement, and in no other
	from   string // a regular expression
	to     string
}

var (
	now       = `CAST\(round\(\(julianday\('[^']*'\) - 2440587.5\) \* 86400000.0\) AS INTEGER\) \* 1000`
	claiming  = "^UPDATE `jobs` SET `status` = 'running'"
	sweeping  = "^UPDATE `jobs` SET `lease_until` = .* WHERE `id` IN "
	extending = "^UPDATE `jobs` SET `lease_until` = .* WHERE `id` = "
	succeeded = "^UPDATE `jobs` SET `status` = \\?"
	retrying  = "^UPDATE `jobs` SET `status` = 'waiting'"
	releasing = "^UPDATE `jobs` SET `status` = 'ready'.* WHERE `id` = "
	promoting = "^UPDATE `jobs` SET `status` = 'ready'.* WHERE `id` IN "
)

var mutants = []mutant{
	{"a sweep does not ask for the lease", "due", workedOnTwice, sweeping, "`lease_until` <= ", "`lease_until` <= 9000000000000000000 - "},
	{"a failure does not compare the fence", "due", workedOnTwice, retrying, "`fence` = ", "`fence` > 0 * "},
	{"a claim does not raise the fence", "due", workedOnTwice, claiming + "|" + sweeping, "`fence` = coalesce\\(`fence`, 0\\) \\+ 1", "`fence` = `fence`"},
	{"an extension is not written", "due", workedOnTwice, extending, "(`lease_until` = )(.*) WHERE", "$1 min(`lease_until`, $2) WHERE"},
	{"a claim has too short a lease", "due", workedOnTwice, claiming, `\+ 2000000`, "+ 1000000"},
	{"a release does not compare the fence", "due", workedOnTwice, releasing, "`fence` = ", "`fence` > 0 * "},

	{"a retry has no due time", "due", isLost, retrying, "`due_at` = " + now, "`due_at` = NULL AND 1"},
	{"a claim has no lease", "due", isLost, claiming, "`lease_until` = " + now, "`lease_until` = NULL AND 1"},
	{"a sweep has no lease", "due", isLost, sweeping, "SET `lease_until` = " + now, "SET `lease_until` = NULL AND 1"},
	{"a promoted row keeps its due time", "ordered", isLost, promoting, "`due_at` = NULL", "`due_at` = `due_at`"},
	{"a released row is waiting", "due", isLost, releasing, "'ready'", "'waiting'"},

	{
		"a success asks for neither status nor lease", "due", succeedsTwice, succeeded,
		"AND `status` IN \\('running'\\) AND `lease_until` IS NOT NULL", "",
	},
	{
		"a success keeps status and lease", "due", succeedsTwice, succeeded,
		"`status` = (\\?[0-9]+), `lease_until` = NULL", "`status` = coalesce(`status`, $1)",
	},

	{"a claim counts nothing", "due", overItsLimit, claiming, "(`attempts`, 0\\)) \\+ 1", "$1 + 0"},
	{"a release gives two attempts back", "due", overItsLimit, releasing, "`attempts` - 1", "`attempts` - 2"},
	{"a failure counts nothing", "ordered", overItsLimit, retrying, "`attempts` = (\\?[0-9]+)", "`attempts` = $1 - 1"},
}

// Each property can be broken, and is seen to be.
func TestExploreMutants(t *testing.T) {
	t.Parallel()
	broken := map[property]bool{}
	for _, m := range mutants {
		broken[m.breaks] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			which, from := regexp.MustCompile(m.which), regexp.MustCompile(m.from)
			altered := 0
			e := newExplorer(t, exploredTables[m.table](), func(query string) string {
				if !which.MatchString(query) {
					return query
				}
				mutated := from.ReplaceAllString(query, m.to)
				require.NotEqual(t, query, mutated)
				altered++
				return mutated
			})
			found := e.explore(m.breaks)
			assert.NotZero(t, altered, "no statement is %q", m.which)
			require.NotEmpty(t, found, "the mutant lives; %d states", len(e.states))
			t.Logf("%s:\n%s", m.breaks, found)
		})
	}
	assert.Len(t, broken, len(properties), "every property has a mutant")
}

// trace returns the steps that lead to a state.
func (e *explorer) trace(at int, last string) string {
	steps := []string{last}
	for ; at > 0; at = e.nodes[at].parent {
		steps = append(steps, e.nodes[at].step+"\n         "+e.nodes[at].world.String())
	}
	slices.Reverse(steps)
	for i := range steps {
		steps[i] = fmt.Sprintf("%3d. %s", i+1, steps[i])
	}
	return strings.Join(steps, "\n")
}

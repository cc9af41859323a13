package tabletest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// The model: two workers, two rows, and a clock, which goes in ticks. Every step of a
// worker is one statement of [retrytable.Table], or none. A worker may die between two
// steps, may be as slow as it likes, and may not learn that a statement took effect.
const (
	exploredRows    = 2
	exploredWorkers = 2
	exploredLease   = 2 // ticks
	exploredBack    = 1 // how often the clock is set back by a tick
	tick            = time.Second
)

var exploredPolicy = &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(tick), Jitter: retry.NoJitter}

// property is what must hold in every state.
type property int

const (
	_             property = iota
	workedOnTwice          // while the lease of a worker holds, nobody else is given its row
	isLost                 // if all workers die, another one can still bring every row to its end
	succeedsTwice          // a row succeeds once, and is not worked on afterwards
	overItsLimit           // lost attempts are counted too: a row has no more than MaxAttempts, those given back excepted
)

var properties = map[property]string{
	workedOnTwice: "a row is worked on twice within one lease",
	isLost:        "a row is lost",
	succeedsTwice: "a row succeeds twice",
	overItsLimit:  "a row has more attempts than its limit",
}

// String returns what it means that the property does not hold.
func (p property) String() string { return properties[p] }

// exploredRow is a row of the table. Its instants are in ticks from now.
type exploredRow struct {
	status     status
	attempts   int8
	due, lease int8 // or null
	fence      int8
}

// status is the place of a word in statuses, whose comparison is quicker.
type status int8

const (
	ready status = iota
	waiting
	running
	done
	dead
)

var statuses = []string{"ready", "waiting", "running", "done", "dead"}

type exploredTable [exploredRows]exploredRow

const (
	null       int8 = 100
	whichFence int8 = 3 // of every row: only the difference to the fences of workers counts
)

// actor is a worker, and what it knows.
type actor struct {
	doing    doing
	row      int8
	fence    int8
	failures int8 // State.Failures
	ends     int8 // its lease, as far as it knows
	stored   bool // that the statement took effect, which it does not know
}

type doing uint8

const (
	idle doing = iota
	working
	// These have to be stored, and may have been.
	success
	failure
	finalFailure
	lostAttempt // of somebody else, whose row was swept
)

var doings = []string{"idle", "working", "a success", "a failure", "a final failure", "that an attempt was lost"}

// String returns what the worker is doing. The two are told apart by nothing else, as
// they may change their places with each step; so may the rows.
func (a actor) String() string {
	switch a.doing {
	case idle:
		return "idle worker"
	case working:
		return fmt.Sprintf("worker on row %d, whose lease ends in %d", a.row, a.ends)
	default:
		return fmt.Sprintf("worker with %s of row %d, whose lease ends in %d", doings[a.doing], a.row, a.ends)
	}
}

// String returns the form "row 0 running, 1 attempt".
func (w *world) String() string {
	var all []string
	for i, r := range w.rows {
		all = append(all, fmt.Sprintf("row %d is %s, %d attempts", i, statuses[r.status], r.attempts))
	}
	return strings.Join(all, "; ")
}

// world is a state of it all.
type world struct {
	rows      exploredTable
	workers   [exploredWorkers]actor
	starts    [exploredRows]int8 // attempts that were begun and not given back
	successes [exploredRows]int8
	back      int8 // how often the clock may still be set back
}

// explorer visits all states.
type explorer struct {
	*exploredDB

	states map[world]struct{}
	nodes  []node
	depth  int
	ends   map[exploredTable]bool // whether every row comes to its end
	seen   map[string]bool        // states that must be among them
}

// node is a visited state, and how it was reached.
type node struct {
	world  world
	parent int
	depth  int
	step   string
}

func newExplorer(t *testing.T, table *retrytable.Table[int64], rewrite func(string) string) *explorer {
	t.Helper()
	return &explorer{
		exploredDB: newExploredDB(t, table, rewrite),
		states:     map[world]struct{}{}, ends: map[exploredTable]bool{}, seen: map[string]bool{},
	}
}

// mutantStates bounds the search for what a mutant breaks.
const mutantStates = 200_000

// explore visits states until there are no more, or a property does not hold: any, or
// the one that is asked for. It returns the steps that lead there.
func (e *explorer) explore(only property) string {
	first := world{back: exploredBack}
	for i := range first.rows {
		first.rows[i] = exploredRow{status: ready, due: null, lease: null, fence: whichFence}
	}
	e.states[first] = struct{}{}
	e.nodes = append(e.nodes, node{world: first})
	for at := 0; at < len(e.nodes); at++ {
		if only != 0 && at > mutantStates {
			return ""
		}
		n := e.nodes[at]
		e.depth = n.depth
		e.notice(n.world)
		broken, step := e.steps(n.world, func(step string, next world) {
			next.normalize()
			if _, known := e.states[next]; !known {
				e.states[next] = struct{}{}
				e.nodes = append(e.nodes, node{next, at, n.depth + 1, step})
			}
		}, only)
		if broken != 0 {
			return fmt.Sprintf("%s\n     %v", e.trace(at, step), broken)
		}
	}
	return ""
}

// notice notes what kinds of states there were.
func (e *explorer) notice(w world) {
	ended := 0
	for i, row := range w.rows {
		e.seen["dead"] = e.seen["dead"] || row.status == dead
		e.seen["at its limit"] = e.seen["at its limit"] || int(w.starts[i]) == exploredPolicy.MaxAttempts
		if row.status == done {
			ended++
		}
	}
	e.seen["both done"] = e.seen["both done"] || ended == exploredRows
	for _, a := range w.workers {
		e.seen["late"] = e.seen["late"] || a.doing == working && a.ends <= 0
		e.seen["swept"] = e.seen["swept"] || a.doing == lostAttempt
		e.seen["answer lost"] = e.seen["answer lost"] || a.doing == success && w.rows[a.row].status == done
	}
}

// normalize makes states the same that differ in nothing that could ever matter: in how
// long ago an instant is, in the numbers of fences, and in which worker or row is which.
func (w *world) normalize() {
	past := -w.back // not to become the future when the clock is set back
	for i := range w.rows {
		r := &w.rows[i]
		for j := range w.workers {
			if a := &w.workers[j]; a.doing != idle && int(a.row) == i {
				a.fence = max(a.fence+whichFence-r.fence, 0)
			}
		}
		r.fence = whichFence
		r.due, r.lease = max(r.due, past), max(r.lease, past)
	}
	for j := range w.workers {
		a := &w.workers[j]
		if a.doing == idle {
			*a = actor{}
		}
		a.ends = max(a.ends, past)
	}
	if w.rows[1].before(w.rows[0]) {
		w.rows[0], w.rows[1] = w.rows[1], w.rows[0]
		w.starts[0], w.starts[1] = w.starts[1], w.starts[0]
		w.successes[0], w.successes[1] = w.successes[1], w.successes[0]
		for j := range w.workers {
			if a := &w.workers[j]; a.doing != idle {
				a.row = 1 - a.row
			}
		}
	}
	if w.workers[1].before(w.workers[0]) {
		w.workers[0], w.workers[1] = w.workers[1], w.workers[0]
	}
}

// before puts rows and workers into some order.
func (r exploredRow) before(other exploredRow) bool {
	return slices.Compare(
		[]int8{int8(r.status), r.attempts, r.due, r.lease},
		[]int8{int8(other.status), other.attempts, other.due, other.lease}) < 0
}

func (a actor) before(b actor) bool {
	return slices.Compare(
		[]int8{int8(a.doing), a.row, a.fence, a.failures, a.ends},
		[]int8{int8(b.doing), b.row, b.fence, b.failures, b.ends}) < 0
}

// steps calls visit with all that may happen next. It returns the first step that breaks
// a property: any, or the one that is asked for.
func (e *explorer) steps(w world, visit func(step string, next world), only property) (broken property, step string) {
	check := func(p property, how string) {
		if broken == 0 && p != 0 && (only == 0 || only == p) {
			broken, step = p, how
		}
	}
	if !e.end(w.rows) {
		check(isLost, "all workers die, and another one comes")
	}
	visit("a tick", shifted(w, -1))
	if w.back > 0 {
		earlier := shifted(w, 1)
		earlier.back--
		visit("the clock is set back by a tick", earlier)
	}
	for i, a := range w.workers {
		who := a.String()
		if a.doing != idle {
			next := w
			next.workers[i] = actor{}
			visit(who+": dies", next)
		}
		switch a.doing {
		case idle:
			for row := range int8(exploredRows) {
				for _, o := range []op{claim, sweep} {
					how := fmt.Sprintf("%s: %s row %d", who, o, row)
					next, taken, p := e.take(w, i, o, row)
					check(p, how)
					if taken {
						visit(how, next)
					}
				}
			}
		case working:
			next := w
			if _, ok := e.apply(&next, a, extend, idle); ok {
				next.workers[i].ends = exploredLease
			} else {
				next.workers[i] = actor{}
			}
			visit(who+": extends", next)

			next = w
			if _, ok := e.apply(&next, a, release, idle); ok {
				next.starts[a.row]--
			}
			next.workers[i] = actor{}
			visit(who+": releases", next)
			for _, d := range []doing{success, failure, finalFailure} {
				check(e.store(w, i, d, who, visit))
			}
		default:
			check(e.store(w, i, a.doing, who, visit))
		}
	}
	return broken, step
}

// take has an idle worker claim or sweep a row.
func (e *explorer) take(w world, i int, o op, row int8) (next world, taken bool, broken property) {
	next = w
	got, ok := e.apply(&next, actor{row: row}, o, idle)
	if !ok {
		return w, false, 0
	}
	for _, other := range w.workers {
		if other.doing != idle && other.row == row && other.ends > 0 && !other.stored {
			broken = workedOnTwice
		}
	}
	a := actor{doing: lostAttempt, row: row, fence: got.fence, failures: got.failures, ends: exploredLease}
	if o == claim {
		a.doing = working
		next.starts[row]++
		switch {
		case w.successes[row] > 0:
			broken = succeedsTwice
		case int(next.starts[row]) > exploredPolicy.MaxAttempts:
			broken = overItsLimit
		}
	}
	next.workers[i] = a
	return next, true, broken
}

// store has a worker store how its attempt ended. It may not learn whether that took
// effect, and does it again then.
func (e *explorer) store(w world, i int, d doing, who string, visit func(string, world)) (broken property, step string) {
	next, a := w, w.workers[i]
	step = who + ": stores " + doings[d]
	refused := w
	refused.workers[i].doing = d
	visit(step+", and the database refuses", refused)
	_, ok := e.apply(&next, a, finish, d)
	if ok && d == success {
		next.successes[a.row]++
		if next.successes[a.row] > 1 {
			broken = succeedsTwice
		}
	}
	unsure := next
	unsure.workers[i].doing, unsure.workers[i].stored = d, a.stored || ok
	visit(step+", and does not learn the answer", unsure)
	next.workers[i] = actor{}
	visit(step, next)
	return broken, step
}

// shifted is the world as it is by another clock.
func shifted(w world, by int8) world {
	for i := range w.rows {
		for _, at := range []*int8{&w.rows[i].due, &w.rows[i].lease} {
			if *at != null {
				*at += by
			}
		}
	}
	for i := range w.workers {
		w.workers[i].ends += by
	}
	return w
}

// end reports whether another worker brings every row to its end, if all others have
// died.
func (e *explorer) end(rows exploredTable) bool {
	if ends, known := e.ends[rows]; known {
		return ends
	}
	w := world{rows: rows}
	for range 4 * exploredLease {
		for row := range int8(exploredRows) {
			for _, o := range []op{sweep, claim} {
				if next, taken, _ := e.take(w, 0, o, row); taken {
					then := lostAttempt
					if o == claim {
						then = success
					}
					_, _ = e.apply(&next, next.workers[0], finish, then)
					next.workers[0] = actor{}
					w = next
				}
			}
		}
		w = shifted(w, -1)
		w.normalize()
	}
	ends := true
	for _, row := range w.rows {
		ends = ends && (row.status == done || row.status == dead)
	}
	e.ends[rows] = ends
	return ends
}

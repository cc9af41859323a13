package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// Node is a command, with the names of the nodes that have to be completed before
// it.
type Node struct {
	Name    string   `yaml:"name"`
	Command string   `yaml:"command"`
	Needs   []string `yaml:"needs"`
	Output  string   `yaml:"-"` // of the last attempt, which after the run is the result

	state   State
	missing int     // how many of Needs are not completed yet
	next    []*Node // need this one
	killed  bool    // its last attempt was ended by an interrupt, and is no failure of the node
}

// State is the state of a node. Between its attempts a node stays Running: the
// graph sees only its end.
type State string

// The states of a node.
const (
	Pending   State = ""
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Skipped   State = "skipped"  // a node that it needs was not completed
	Canceled  State = "canceled" // the run was ended before the node
)

// Graph runs nodes, each as soon as all nodes that it needs are completed.
type Graph struct {
	nodes    []*Node
	progress Progress                  // of an earlier run, and then of this one
	changed  func(*Node, State, error) // called at every change of a state, one at a time
	submit   func(*Node)               // to the pool of a Run
	mu       sync.Mutex                // over the states and the progress
}

// newGraph checks that names are unique and known, and that there is no cycle.
func newGraph(nodes []Node, changed func(*Node, State, error)) (*Graph, error) {
	g := &Graph{progress: Progress{}, changed: changed}
	known, needs := map[string]*Node{}, map[string][]string{}
	var names []string
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Name == "" || n.Command == "":
			return nil, fmt.Errorf("nodes[%d]: name %q, command %q: must not be empty", i, n.Name, n.Command)
		case known[n.Name] != nil:
			return nil, fmt.Errorf("nodes[%d]: name %q: is taken", i, n.Name)
		}
		known[n.Name], needs[n.Name] = n, n.Needs
		names, g.nodes = append(names, n.Name), append(g.nodes, n)
	}
	for _, n := range g.nodes {
		for _, name := range n.Needs {
			needed := known[name]
			if needed == nil {
				return nil, fmt.Errorf("node %q: needs %q: there is no such node", n.Name, name)
			}
			needed.next = append(needed.next, n)
			n.missing++
		}
	}
	if _, cycle := shared.Order(names, needs); cycle != nil {
		return nil, fmt.Errorf("nodes: there is a cycle: %s", strings.Join(cycle, " needs "))
	}
	return g, nil
}

// nodeKey is the key of the node in the context of a task.
type nodeKey struct{}

// Run runs the graph on a pool of its own, and returns when every node has ended,
// has been skipped, or was canceled with the context. What command returns is then the
// Output of the node.
func (g *Graph) Run(
	ctx context.Context, workers int, policy *retry.Policy, command func(context.Context, *Node) (string, error),
) {
	pool := &retrypool.Pool{Workers: workers, Queue: len(g.nodes), Policy: policy} // so that Submit does not block
	pool.OnEnd = func(ctx context.Context, t *retrypool.Task) {
		n, _ := ctx.Value(nodeKey{}).(*Node)
		state, err := outcome(policy.Name, t)
		attempts, at := t.State()
		if n.killed && state == Canceled {
			attempts.Failures--
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.progress[n.Name] = (NodeProgress{state == Completed, n.Output, attempts, at}); state == Failed {
			delete(g.progress, n.Name)
		}
		g.end(n, state, err)
	}
	g.submit = func(n *Node) {
		before, err := g.progress[n.Name], error(nil)
		ctx := context.WithValue(ctx, nodeKey{}, n)
		work := func(attempt context.Context) (err error) {
			g.mu.Lock()
			g.set(n, Running, nil)
			g.mu.Unlock()
			n.Output, err = command(attempt, n)
			n.killed = err != nil && ctx.Err() != nil
			return err
		}
		switch {
		case before.Completed:
			n.Output = before.Output
			g.end(n, Completed, nil)
		case before.State.Failures > 0:
			_, err = pool.Resume(ctx, before.State, before.At, work)
		default:
			_, err = pool.Submit(ctx, work)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			g.end(n, Canceled, err)
		default: // no attempt is left
			delete(g.progress, n.Name)
			g.end(n, Failed, err)
		}
	}
	g.mu.Lock()
	for _, n := range g.nodes {
		if len(n.Needs) == 0 {
			g.submit(n)
		}
	}
	g.mu.Unlock()
	_ = pool.Wait(context.WithoutCancel(ctx)) // for the ends of those that were canceled too
}

// outcome returns the state of a node whose task has ended, and the error in the
// required form.
func outcome(name string, t *retrypool.Task) (State, error) {
	var gaveUp *retry.Error
	switch err := t.Err(); {
	case err == nil:
		return Completed, nil
	case !errors.As(err, &gaveUp): // a Final error comes as it is
		return Failed, &retry.Error{Policy: name, Attempts: t.Attempts(), Stop: retry.StopFinal, Err: err}
	case gaveUp.Stop == retry.StopCanceled, gaveUp.Stop == retry.StopDeadline:
		return Canceled, err
	default:
		return Failed, err
	}
}

// end says how a node has ended. The nodes that need it may run then, or are skipped, and
// so are all that need those.
func (g *Graph) end(n *Node, s State, err error) {
	g.set(n, s, err)
	for _, next := range n.next {
		if s == Completed {
			if next.missing--; next.missing == 0 {
				g.submit(next)
			}
		} else if next.state != Skipped {
			g.end(next, Skipped, fmt.Errorf("needs %s, which was not completed", n.Name))
		}
	}
}

// set changes the state of a node, and calls changed.
func (g *Graph) set(n *Node, s State, err error) {
	if n.state != s {
		n.state = s
		g.changed(n, s, err)
	}
}

// counts has the number of nodes in each state, when the run has ended.
func (g *Graph) counts() map[State]int {
	counts := map[State]int{}
	for _, n := range g.nodes {
		counts[n.state]++
	}
	return counts
}

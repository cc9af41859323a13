package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

var errConnection = errors.New("connection refused")

// play is a run of a graph in a bubble of synctest. Commands are scripts: one word
// for each attempt, of which "ok" is a success and the last repeats.
type play struct {
	t     *testing.T
	graph *Graph
	start time.Time

	mu       sync.Mutex
	changes  []string // "1s a running"
	attempts []string // "1s a"
	made     map[string]int
	errs     map[string]error
}

func newPlay(t *testing.T, nodes ...Node) *play {
	t.Helper()
	p := &play{t: t, start: time.Now(), made: map[string]int{}, errs: map[string]error{}}
	g, err := newGraph(nodes, func(n *Node, s State, err error) {
		p.note(&p.changes, n, string(s))
		p.errs[n.Name] = err
	})
	require.NoError(t, err)
	p.graph = g
	return p
}

func (p *play) note(lines *[]string, n *Node, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*lines = append(*lines, strings.TrimSpace(fmt.Sprintf("%v %s %s", time.Since(p.start), n.Name, text)))
}

func (p *play) command(_ context.Context, n *Node) (string, error) {
	p.note(&p.attempts, n, "")
	p.mu.Lock()
	i := p.made[n.Name]
	p.made[n.Name]++
	p.mu.Unlock()
	words := strings.Fields(n.Command)
	word := words[min(i, len(words)-1)]
	output := fmt.Sprintf("%s %d", n.Name, i+1)
	switch word {
	case "ok":
		return output, nil
	case "second":
		time.Sleep(time.Second)
		return output, nil
	case "connection":
		return output, errConnection
	case "final":
		return output, retry.MarkFinal(errors.New("connection refused for good"))
	default:
		return output, errors.New(word)
	}
}

// state returns the state of a node while the graph runs.
func (p *play) state(name string) State {
	p.graph.mu.Lock()
	defer p.graph.mu.Unlock()
	i := slices.IndexFunc(p.graph.nodes, func(n *Node) bool { return n.Name == name })
	return p.graph.nodes[i].state
}

// documented is the required default policy.
func documented(o *retry.Observer) *retry.Policy { return RetryConfig{3, 2, 2, 30}.Policy(o) }

// TestDelays2s4sThenGiveUp checks the required sequence of waits and text of the
// error.
func TestDelays2s4sThenGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, Node{Name: "a", Command: "connection"})
		p.graph.Run(t.Context(), 1, documented(nil), p.command)
		assert.Equal(t, []string{"0s a", "2s a", "6s a"}, p.attempts)
		require.EqualError(t, p.errs["a"], "task failed after 3 attempts: connection refused")
		assert.ErrorIs(t, p.errs["a"], errConnection, "the last error is found")
	})
}

// TestNodeStaysRunning: the graph sees only the end of a node.
func TestNodeStaysRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, Node{Name: "a", Command: "connection"}, Node{Name: "b", Command: "connection ok"})
		assert.Equal(t, Pending, p.state("a"))
		go p.graph.Run(t.Context(), 1, documented(nil), p.command)
		for _, at := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} { // while a waits, twice
			time.Sleep(at - time.Since(p.start))
			assert.Equal(t, Running, p.state("a"))
		}
		assert.Equal(t, Completed, p.state("b"))
		time.Sleep(2 * time.Second)
		assert.Equal(t, Failed, p.state("a"))
		assert.Equal(t, []string{"0s a running", "0s b running", "2s b completed", "6s a failed"}, p.changes)
	})
}

// TestAnyAttemptSucceeds: the node is Completed then, and Failed when all attempts
// are exhausted, at once when NON_RETRIABLE.
func TestAnyAttemptSucceeds(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]State{
		"ok":                          Completed,
		"connection ok":               Completed,
		"connection strange ok":       Completed,
		"connection strange third ok": Failed, // one too late
		"connection":                  Failed,
		"final ok":                    Failed,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlay(t, Node{Name: "a", Command: command})
			p.graph.Run(t.Context(), 1, documented(nil), p.command)
			assert.Equal(t, want, p.state("a"), command)
		})
	}
}

// TestOutput: the caller of Run gets what the last attempt of each node returned, also of
// the nodes that an earlier run has completed.
func TestOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, Node{Name: "first", Command: "ok"}, Node{Name: "third", Command: "connection strange ok"},
			Node{Name: "failed", Command: "final"}, Node{Name: "skipped", Command: "ok", Needs: []string{"failed"}})
		p.graph.Run(t.Context(), 2, documented(nil), p.command)
		outputs := func(g *Graph) (all []string) {
			for _, n := range g.nodes {
				all = append(all, n.Output)
			}
			return all
		}
		assert.Equal(t, []string{"first 1", "third 3", "failed 1", ""}, outputs(p.graph))

		next := newPlay(t, Node{Name: "first", Command: "ok"}, Node{Name: "third", Command: "ok"})
		file := filepath.Join(t.TempDir(), "state")
		require.NoError(t, p.graph.progress.write(file, true))
		require.NoError(t, next.graph.progress.read(file))
		next.graph.Run(t.Context(), 2, documented(nil), next.command)
		assert.Empty(t, next.attempts)
		assert.Equal(t, []string{"first 1", "third 3"}, outputs(next.graph))
	})
}

// TestNonRetriable: no attempt is wasted, and the error still counts them.
func TestNonRetriable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, Node{Name: "a", Command: "final"}, Node{Name: "b", Command: "connection final"})
		p.graph.Run(t.Context(), 1, documented(nil), p.command)
		// The function's own mark comes before the rules.
		require.EqualError(t, p.errs["a"], "task failed after 1 attempt: connection refused for good")
		require.EqualError(t, p.errs["b"], "task failed after 2 attempts: connection refused for good")
		assert.Equal(t, []string{"0s a", "0s b", "2s b"}, p.attempts)
	})
}

// TestUnknownIsRetried: up to max_attempts.
func TestUnknownIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, Node{Name: "a", Command: "strange"}, Node{Name: "b", Command: "strange ok"})
		p.graph.Run(t.Context(), 1, documented(nil), p.command)
		require.EqualError(t, p.errs["a"], "task failed after 3 attempts: strange")
		assert.Equal(t, Completed, p.state("b"), "any attempt succeeds")
	})
}

// TestAudit: an entry for every attempt and its result.
func TestAudit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPlay(t,
			Node{Name: "good", Command: "ok"},
			Node{Name: "flaky", Command: "connection strange ok", Needs: []string{"good"}},
			Node{Name: "bad", Command: "connection", Needs: []string{"flaky"}},
			Node{Name: "final", Command: "final", Needs: []string{"flaky"}},
			Node{Name: "never", Command: "ok", Needs: []string{"bad"}},
		)
		p.graph.Run(t.Context(), 1, documented(newAudit(&log)), p.command)

		var got []string
		for line := range strings.Lines(log.String()) {
			var e struct {
				Time                                  time.Time
				Node, Msg, Class, Delay, Error, Level string
				Policy, Stop                          string
				Attempt                               int
			}
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			assert.Equal(t, "task", e.Policy)
			got = append(got, fmt.Sprintf("%v %s %d %s %s: %s %s: %s",
				e.Time.Sub(p.start), e.Node, e.Attempt, e.Msg, e.Stop, e.Class, e.Delay, e.Error))
		}
		assert.Equal(t, []string{
			"0s good 1 succeeded :  : ",
			"0s flaky 1 retrying : unknown 2s: connection refused",
			"2s flaky 2 retrying : unknown 4s: strange",
			"6s flaky 3 recovered :  : ",
			"6s bad 1 retrying : unknown 2s: connection refused",
			"6s final 1 gave up final: final : connection refused for good",
			"8s bad 2 retrying : unknown 4s: connection refused",
			"12s bad 3 gave up attempts: unknown : task failed after 3 attempts: connection refused",
		}, got)
		assert.Len(t, got, len(p.attempts))
	})
}

// TestWaitingNodeHoldsNoWorker: with one worker, others run meanwhile.
func TestWaitingNodeHoldsNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t,
			Node{Name: "a", Command: "connection ok"},
			Node{Name: "b", Command: "second"},
			Node{Name: "c", Command: "ok", Needs: []string{"b"}},
		)
		p.graph.Run(t.Context(), 1, documented(nil), p.command)
		assert.Equal(t, []string{"0s a", "0s b", "1s c", "2s a"}, p.attempts)
	})
}

// TestWorkers: no more nodes run at once than there are workers.
func TestWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := make([]Node, 5)
		for i := range nodes {
			nodes[i] = Node{Name: string(rune('a' + i)), Command: "second"}
		}
		p := newPlay(t, nodes...)
		p.graph.Run(t.Context(), 2, documented(nil), p.command)
		slices.Sort(p.attempts)
		assert.Equal(t, []string{"0s a", "0s b", "1s c", "1s d", "2s e"}, p.attempts)
	})
}

// TestNeeds: a node runs after all nodes that it needs; a node that needs a
// failed one is skipped, and the others go on.
func TestNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t,
			Node{Name: "last", Command: "ok", Needs: []string{"left", "right", "left"}},
			Node{Name: "left", Command: "connection second", Needs: []string{"first"}},
			Node{Name: "right", Command: "second", Needs: []string{"first"}},
			Node{Name: "first", Command: "second"},
			Node{Name: "bad", Command: "final"},
			Node{Name: "skipped", Command: "ok", Needs: []string{"first", "bad"}},
			Node{Name: "too", Command: "ok", Needs: []string{"skipped", "bad"}},
		)
		p.graph.Run(t.Context(), 4, documented(nil), p.command)
		slices.Sort(p.attempts)
		assert.Equal(t, []string{"0s bad", "0s first", "1s left", "1s right", "3s left", "4s last"}, p.attempts)
		assert.Equal(t, map[State]int{Completed: 4, Failed: 1, Skipped: 2}, p.graph.counts())
		require.EqualError(t, p.errs["skipped"], "needs bad, which was not completed")
		require.EqualError(t, p.errs["too"], "needs skipped, which was not completed")
		assert.Equal(t, "4s last completed", p.changes[len(p.changes)-1])
	})
}

func TestGraphErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"unknown", []Node{node("a", "b")}, `node "a": needs "b": there is no such node`},
		{"itself", []Node{node("a", "a")}, `nodes: there is a cycle: a needs a`},
		{"cycle", []Node{node("x"), node("a", "x", "c"), node("b", "a"), node("c", "b")}, `nodes: there is a cycle: a needs c needs b needs a`},
		{"cycle further on", []Node{node("x", "c"), node("b", "c"), node("c", "b")}, `nodes: there is a cycle: c needs b needs c`},
		{"twice", []Node{node("a"), node("a")}, `nodes[1]: name "a": is taken`},
		{"no name", []Node{node("a"), {Command: "c"}}, `nodes[1]: name "", command "c": must not be empty`},
		{"no command", []Node{{Name: "a"}}, `nodes[0]: name "a", command "": must not be empty`},
		{"diamond", []Node{node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := newGraph(test.nodes, nil)
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
}

func node(name string, needs ...string) Node { return Node{Name: name, Command: "ok", Needs: needs} }

// TestCanceledWhileWaiting: the node ends at once, with both errors.
func TestCanceledWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPlay(t, node("done"), Node{Name: "a", Command: "connection"}, node("b", "a"))
		time.AfterFunc(time.Second, cancel)
		p.graph.Run(ctx, 1, documented(nil), p.command)
		assert.Equal(t, time.Second, time.Since(p.start))
		require.EqualError(t, p.errs["a"], "task failed after 1 attempt (context canceled): connection refused")
		require.ErrorIs(t, p.errs["a"], context.Canceled)
		require.ErrorIs(t, p.errs["a"], errConnection)
		assert.Equal(t, []State{Completed, Canceled, Skipped}, []State{p.state("done"), p.state("a"), p.state("b")})
	})
}

// TestCanceledBeforeTheStart: neither queued nodes nor nodes that are not
// submitted yet run.
func TestCanceledBeforeTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPlay(t, Node{Name: "a", Command: "second"}, node("b"), node("c", "a"))
		time.AfterFunc(time.Millisecond, cancel)
		p.graph.Run(ctx, 1, documented(nil), p.command)
		assert.Equal(t, []string{"0s a"}, p.attempts)
		assert.Equal(t, []State{Completed, Canceled, Canceled}, []State{p.state("a"), p.state("b"), p.state("c")})
		require.EqualError(t, p.errs["b"], "task not started: context canceled")
		require.EqualError(t, p.errs["c"], "context canceled")
	})
}

// TestCanceledAfterTimeout: an attempt that has timed out counts, also if an interrupt ends the wait
// for the next one.
func TestCanceledAfterTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, policy := newPlay(t, node("a")), documented(nil)
		policy.AttemptTimeout = time.Second
		time.AfterFunc(2*time.Second, cancel)
		p.graph.Run(ctx, 1, policy, func(ctx context.Context, _ *Node) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		assert.Equal(t, Canceled, p.state("a"))
		assert.Equal(t, 1, p.graph.progress["a"].State.Failures)
	})
}

// TestParentDeadline: the deadline of the whole run ends a node; the timeout of
// an attempt would be retried.
func TestParentDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		p := newPlay(t, Node{Name: "a", Command: "deadline"}, Node{Name: "b", Command: "connection"})
		command := func(ctx context.Context, n *Node) (string, error) {
			if n.Name == "a" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return p.command(ctx, n)
		}
		p.graph.Run(ctx, 2, documented(nil), command)
		require.ErrorIs(t, p.errs["a"], context.DeadlineExceeded)
		require.ErrorContains(t, p.errs["a"], "task failed after 1 attempt")
		// It does not wait for an attempt that would come too late.
		assert.Equal(t, []string{"0s b", "2s b"}, p.attempts)
		assert.Equal(t, []State{Canceled, Canceled}, []State{p.state("a"), p.state("b")})
	})
}

// TestCommands runs real commands under the rules.
func TestCommands(t *testing.T) {
	t.Parallel()
	p := newPlay(t,
		Node{Name: "retriable", Command: "echo connection refused >&2; exit 1"},
		Node{Name: "unknown", Command: "kill -9 $$"},
		Node{Name: "denied", Command: "echo Permission denied >&2; exit 1"},
		Node{Name: "code", Command: "exit 3"},
	)
	policy := documented(nil)
	policy.Backoff = retry.Constant(time.Millisecond)
	p.graph.Run(t.Context(), 2, policy, shell(io.Discard))
	for name, want := range map[string]string{
		"retriable": "task failed after 3 attempts: exit status 1: connection refused",
		"unknown":   "task failed after 3 attempts: signal: killed",
		"denied":    "task failed after 1 attempt: exit status 1: Permission denied",
		"code":      "task failed after 1 attempt: exit status 3",
	} {
		assert.EqualError(t, p.errs[name], want)
	}
}

// TestDeepGraph has more paths than could be followed one by one.
func TestDeepGraph(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := []Node{{Name: "l0", Command: "final"}, {Name: "r0", Command: "final"}}
		for i := range 60 {
			needs := []string{nodes[2*i].Name, nodes[2*i+1].Name}
			nodes = append(nodes, node(fmt.Sprintf("l%d", i+1), needs...), node(fmt.Sprintf("r%d", i+1), needs...))
		}
		p := newPlay(t, nodes...)
		p.graph.Run(t.Context(), 1, documented(nil), p.command)
		assert.Equal(t, 120, p.graph.counts()[Skipped])
	})
}

// TestTaskDeadline: the timeout of one attempt is RETRIABLE, with a real
// process.
func TestTaskDeadline(t *testing.T) {
	t.Parallel()
	p := newPlay(t, Node{Name: "a", Command: "sleep 60"})
	policy := documented(nil)
	policy.Backoff, policy.AttemptTimeout = retry.Constant(time.Millisecond), 50*time.Millisecond
	p.graph.Run(t.Context(), 1, policy, shell(io.Discard))
	require.EqualError(t, p.errs["a"], "task failed after 3 attempts: attempt timed out: signal: killed")
	require.ErrorIs(t, p.errs["a"], context.DeadlineExceeded)
	assert.Equal(t, Failed, p.state("a"))
}

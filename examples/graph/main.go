// Graph runs commands that need each other: each as soon as what it needs is done, with retries,
// and several at once. A command that waits for its retry occupies no worker.
//
//	go run ./examples/graph
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// node is a command, and the names of the nodes that it needs.
type node struct {
	command func(context.Context) *exec.Cmd
	needs   []string
}

type graph map[string]node

// nodeKey is where the context of a task has the name of its node.
type nodeKey struct{}

// run returns the errors of all nodes: nil, why it failed, or that it was not run. Nodes that
// need each other in a circle are not run.
func (g graph) run(ctx context.Context, workers int, policy *retry.Policy) map[string]error {
	type end struct {
		name string
		err  error
	}
	ends := make(chan end, len(g)) // so that nothing waits for this function
	pool := &retrypool.Pool{
		Workers: workers,
		Queue:   len(g), // so that Submit does not wait
		Policy:  policy,
		OnEnd: func(ctx context.Context, task *retrypool.Task) {
			name, _ := ctx.Value(nodeKey{}).(string)
			ends <- end{name, task.Err()}
		},
	}
	ended, begun := map[string]error{}, map[string]bool{}
	begin := func(name string) {
		begun[name] = true
		_, err := pool.Submit(context.WithValue(ctx, nodeKey{}, name), func(ctx context.Context) error {
			return retryexec.Once(ctx, g[name].command)
		})
		if err != nil {
			ends <- end{name, err}
		}
	}
	for {
		for _, name := range slices.Sorted(maps.Keys(g)) {
			if !begun[name] && !slices.ContainsFunc(g[name].needs, func(need string) bool {
				err, done := ended[need]
				return !done || err != nil
			}) {
				begin(name)
			}
		}
		if len(ended) == len(begun) {
			break // nothing runs, and nothing can begin
		}
		e := <-ends
		ended[e.name] = e.err
	}
	for name := range g {
		if !begun[name] {
			ended[name] = fmt.Errorf("not run: needs %q", g[name].needs)
		}
	}
	return ended
}

// shell returns a node that runs a command of the shell in a directory.
func shell(dir, command string, needs ...string) node {
	return node{needs: needs, command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir = dir
		return cmd
	}}
}

func main() {
	dir, err := os.MkdirTemp("", "graph-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	g := graph{
		"fetch":   shell(dir, "echo >>tries; test $(wc -l <tries) = 3"), // succeeds at the third attempt
		"compile": shell(dir, "true", "fetch"),
		"lint":    shell(dir, "echo bad style >&2; exit 1", "fetch"),
		"publish": shell(dir, "true", "compile", "lint"),
	}
	policy := &retry.Policy{Name: "command", Backoff: retry.Constant(10 * time.Millisecond)}
	for name, err := range g.run(context.Background(), 2, policy) {
		fmt.Printf("%s: %v\n", name, err)
	}
}

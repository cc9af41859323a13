// Policies is a service whose retry policies are changed while it is under load:
//
//	go run ./examples/policies
//
// The service reads policies.json and asks a backend that fails half of its
// requests. While clients call the service, the program writes other policies to
// the file, one of them with a mistake in it. The service applies every change,
// keeps its policies if the file is invalid, and loses no call. Exit code 1 means
// that a call was lost.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"
)

// step is one content of the file.
type step struct{ says, file string }

var steps = []step{
	{"the file that the service starts with", `{
  "default":  {"max_attempts": 20},
  "policies": {"backend": {"backoff": {"constant": "1ms"}}}
}`},
	{"the waits grow, and there is a limit of time", `{
  "default":  {"max_attempts": 30, "max_elapsed": "1m"},
  "policies": {"backend": {"backoff": {"exponential": {"initial": "500us"}}, "max_delay": "2ms"}}
}`},
	{"somebody mistypes a key", `{
  "default":  {"max_attempts": 30},
  "policies": {
    "backend": {"max_atempts": 1}
  }
}`},
	{"and puts it right", `{
  "default":  {"max_attempts": 30},
  "policies": {
    "backend": {"max_attempts": 25, "backoff": {"constant": "2ms"}}
  }
}`},
}

func main() {
	stay := flag.Duration("stay", time.Second, "how long each file stays")
	clients := flag.Int("clients", 8, "that call the service at the same time")
	flag.Parse()
	lost, err := run(os.Stdout, *stay, *clients)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "policies:", err)
		os.Exit(2)
	case lost > 0:
		os.Exit(1)
	}
}

// run plays the steps, and returns the number of lost calls.
func run(out io.Writer, stay time.Duration, clients int) (lost int, err error) {
	dir, err := os.MkdirTemp("", "policies")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "policies.json")
	if err := replace(file, steps[0].file); err != nil {
		return 0, err
	}
	backend := httptest.NewServer(&flaky{})
	defer backend.Close()
	service, err := newService(file, backend.URL)
	if err != nil {
		return 0, err
	}
	front := httptest.NewServer(service)
	defer front.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reloads := make(chan error)
	go watch(ctx, file, []byte(steps[0].file), &service.policies, reloads)
	load := startLoad(front.URL, clients)
	defer load.end()

	for i, step := range steps {
		fmt.Fprintln(out, step.says)
		if i > 0 {
			if err := replace(file, step.file); err != nil {
				return load.lost(), err
			}
			if err := <-reloads; err != nil {
				fmt.Fprintf(out, "  refused: %v\n", err)
			}
		}
		policy, err := service.policies.Get("backend")
		if err != nil {
			return load.lost(), err
		}
		before := load.calls()
		for deadline := time.Now().Add(stay); time.Now().Before(deadline) || load.calls() == before; {
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(out, "  %v\n  %d calls, %d lost so far\n", policy, load.calls()-before, load.lost())
	}
	load.end()
	fmt.Fprintf(out, "%d calls and %d retries, %d calls lost\n", load.calls(), service.retries.Load(), load.lost())
	return load.lost(), nil
}

// replace writes the file so that a reader never gets half of it.
func replace(file, content string) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

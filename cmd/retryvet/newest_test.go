package main_test

import (
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newest is a Go with generic methods, keys of embedded fields in literals, and types of functions
// that are inferred wherever a function is assigned.
const newest = "go1.27.4"

const newSyntax = `package m

import (
	"context"
	"errors"
	"time"
)

type limits struct {
	Attempts int
	Wait     time.Duration
}

type client struct{ limits }

func newClient() *client { return &client{Attempts: 3, Wait: time.Second} }

func (c *client) get[T any](ctx context.Context) (T, error) { var zero T; return zero, errors.New("x") }

func (c *client) pause[D ~int64](d D) { time.Sleep(time.Duration(d)) }

func (c *client) Fetch[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	var zero T
	for range c.Attempts {
		v, err := call(ctx)
		if err == nil {
			return v, nil
		}
		time.Sleep(c.Wait) // sleep, lastsleep
	}
	return zero, errors.New("gave up") // lost
}

func (c *client) loop(ctx context.Context) error {
	for {
		if _, err := c.get[int](ctx); err == nil {
			return nil
		}
		c.pause(time.Second) // sleep
	}
}

func isOK[T any](_ T, err error) bool { return err == nil }

func inferred(ctx context.Context, c *client) error {
	checks := []func(int, error) bool{isOK}
	for range 3 {
		if v, err := c.get[int](ctx); checks[0](v, err) {
			return nil
		}
		time.Sleep(time.Second) // sleep, lastsleep
	}
	return errors.New("gave up")
}

func (c *client) delay[T ~int](n T) time.Duration {
	d := time.Second << n // overflow
	if d > time.Minute {
		d = time.Minute
	}
	return d
}
`

// What Go 1.27 has added to the language is read, and each mistake in it is told once.
func TestNewestSyntax(t *testing.T) {
	t.Parallel()
	command := func(dir, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// The tests build retryvet with the Go that runs them, which may be older.
	tool, toolchain := program, ""
	if current, _, _ := run(t, ".", "go", "env", "GOVERSION"); version.Compare(strings.TrimSpace(current), "go1.27") < 0 {
		toolchain = "GOTOOLCHAIN=" + newest
		if out, err := command(".", "env", toolchain, "go", "version"); err != nil {
			t.Skipf("needs %s: %s", newest, out)
		}
		tool = filepath.Join(t.TempDir(), "retryvet")
		out, err := command(".", "env", toolchain, "go", "build", "-o", tool, ".")
		require.NoError(t, err, out)
	}
	dir := module(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.27\n", "m.go": newSyntax})
	with := func(args ...string) []string {
		if toolchain == "" {
			return args
		}
		return append([]string{"env", toolchain}, args...)
	}
	want := map[string]int{}
	for line := range strings.SplitSeq(newSyntax, "\n") {
		if _, checks, ok := strings.Cut(line, " // "); ok {
			for check := range strings.SplitSeq(checks, ", ") {
				want[check]++
			}
		}
	}
	for _, args := range [][]string{with(tool, "./..."), with("go", "vet", "-vettool="+tool, "./...")} {
		_, stderr, code := run(t, dir, args[0], args[1:]...)
		assert.NotZero(t, code)
		got := map[string]int{}
		for line := range strings.SplitSeq(stderr, "\n") {
			if parts := strings.SplitN(line, ": ", 3); len(parts) == 3 && strings.Contains(parts[0], "m.go:") {
				got[parts[1]]++
			}
		}
		assert.Equal(t, want, got, stderr)
	}
	args := with(tool, "-fix", "./...")
	_, stderr, code := run(t, dir, args[0], args[1:]...)
	assert.Zero(t, code, stderr)
	args = with("go", "build", "./...")
	_, stderr, code = run(t, dir, args[0], args[1:]...)
	assert.Zero(t, code, stderr)
}

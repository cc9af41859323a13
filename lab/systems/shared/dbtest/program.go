package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// patience is how long a test waits for what should not take a second.
const patience = 20 * time.Second

// Program is the run of a main.
type Program func(ctx context.Context, args []string, out io.Writer) error

// Run runs a program that has to end well, and returns what it has printed.
func Run(t testing.TB, run Program, args ...string) string {
	t.Helper()
	var out Output
	require.NoError(t, run(t.Context(), args, &out), args)
	return out.String()
}

// Start runs a program until stop, which returns its error, or until the test ends.
func Start(t testing.TB, run Program, args ...string) (out *Output, stop func() error) {
	t.Helper()
	out = &Output{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, out) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return out, stop
}

// Output is what a program has printed so far. It may be written to, and read, by
// several goroutines.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
	read int // how much of it Await and Rest have returned
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Rest returns what was printed after what Await and Rest have returned before.
func (o *Output) Rest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.text.String()[o.read:]
	o.read = o.text.Len()
	return rest
}

// Await waits until the rest matches a pattern, and returns the match, with its
// groups.
func (o *Output) Await(t testing.TB, pattern string) (match []string) {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); match == nil; time.Sleep(time.Millisecond) {
		require.False(t, time.Now().After(end), "not printed: %s\n%s", pattern, o)
		o.mu.Lock()
		rest := o.text.String()[o.read:]
		if match = expression.FindStringSubmatch(rest); match != nil {
			o.read += expression.FindStringIndex(rest)[1]
		}
		o.mu.Unlock()
	}
	return match
}

// workerDSN is the variable that makes a test program a worker.
const workerDSN = "RETRY_EXAMPLE_WORKER_DSN"

// ready is what a worker prints before it works. To kill it earlier shows nothing.
const ready = "!"

// Main is the TestMain of a package that calls [Kill]: it runs the tests, or, in
// a process that Kill started, the worker, which should not return.
func Main(m *testing.M, worker func(ctx context.Context, db *shared.DB) error) {
	dsn := os.Getenv(workerDSN)
	if dsn == "" {
		os.Exit(m.Run())
	}
	go func() { // not longer than the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	ctx := context.Background()
	db, err := shared.Open(ctx, dsn)
	if err == nil {
		fmt.Print(ready)
		err = worker(ctx, db)
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	os.Exit(1)
}

// WorkerEnv is the variable that makes a process of the test program a worker of
// [Main], for as long as its standard input is open.
func WorkerEnv(dsn string) string { return workerDSN + "=" + dsn }

// Kill keeps so many processes running that do the work of [Main] on db, and kills them with SIGKILL,
// so many times in all: each 30 to 130 ms for each of them after it began to work. It returns when done
// says so, which it asks again and again. The test fails if a worker ends in another way than killed, by
// Kill or by its work, or if all takes longer than ten minutes, which is much even for a machine that has
// a lot else to do.
func Kill(t *testing.T, db *shared.DB, workers, kills int, done func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	var wg sync.WaitGroup
	var killed atomic.Int64
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				life := time.Hour
				if killed.Add(1) <= int64(kills) {
					life = time.Duration(workers) * (30*time.Millisecond + rand.N(100*time.Millisecond))
				}
				if !worker(ctx, t, db.DSN, life) {
					stop()
				}
			}
		})
	}
	for ctx.Err() == nil && (!done() || killed.Load() < int64(kills)) {
		time.Sleep(30 * time.Millisecond)
	}
	assert.NoError(t, ctx.Err(), "not done")
	stop()
	wg.Wait()
}

// worker runs a worker until it dies, which is so long after it began to work at the latest, and reports
// whether that is how it ended.
func worker(ctx context.Context, t *testing.T, dsn string, life time.Duration) bool {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), WorkerEnv(dsn))
	cmd.Stderr = t.Output()
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if !assert.NoError(t, errors.Join(inErr, outErr)) {
		return false
	}
	defer func() { _ = stdin.Close() }()
	if err := cmd.Start(); err != nil {
		return assert.ErrorIs(t, err, context.Canceled, "over before it began")
	}
	if _, err := stdout.Read(make([]byte, len(ready))); err == nil {
		defer time.AfterFunc(life, func() { _ = cmd.Process.Kill() }).Stop()
	}
	return assert.ErrorContains(t, cmd.Wait(), "killed", "a worker ends in no other way")
}

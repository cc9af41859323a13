package dbtest

import (
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	read int           // how much of it Await and Rest have returned
	more chan struct{} // is closed by the next Write, if somebody awaits it
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
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
func (o *Output) Await(t testing.TB, pattern string) []string {
	t.Helper()
	timeout := time.After(patience)
	for expression := regexp.MustCompile(pattern); ; {
		match, more := o.match(expression)
		if match != nil {
			return match
		}
		select {
		case <-more:
		case <-timeout:
			require.Fail(t, "not printed: "+pattern, o.String())
		}
	}
}

// match returns a match, or what is closed when there is more to be read.
func (o *Output) match(pattern *regexp.Regexp) (match []string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.text.String()[o.read:]
	if at := pattern.FindStringIndex(rest); at != nil {
		o.read += at[1]
		return pattern.FindStringSubmatch(rest), nil
	}
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return nil, o.more
}

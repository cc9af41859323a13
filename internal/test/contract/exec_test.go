package contract_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// childEnv makes the test binary a command that exits with its value.
const childEnv = "RETRY_CONTRACT_CHILD"

func TestMain(m *testing.M) {
	if code, ok := os.LookupEnv(childEnv); ok {
		n, err := strconv.Atoi(code)
		if err != nil {
			n = 1
		}
		os.Exit(n)
	}
	os.Exit(m.Run())
}

// firstCode is the exit status of the first attempt that fails; the second has the
// next one. None of them has a meaning.
const firstCode = 10

// testRun makes every attempt a process, one script in sixty. Its time passes before it is
// started. Only an exit status comes back from a failure. So the Classifier knows the verdict
// about the error behind each status, and the errors are restored for the stage.
func testRun(t *testing.T, d *decoder) {
	t.Helper()
	if !d.once(60) {
		return
	}
	s := newStage(t, d.script().attentive())
	s.state = retry.State{}
	p := s.policy
	if s.watch != nobody {
		s.watch = events // an Observer of attempts would see the statuses
		s.policy.Observer = retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
			e.Err = s.original(t, e.Err, s.calls)
			s.Observe(ctx, e)
		})
	}
	s.policy.Classifier = func(error) (v retry.Verdict) {
		v, marked := retry.Marked(s.last)
		if !marked && p.Classifier != nil {
			v = p.Classifier(s.last)
		}
		if marked && v == (retry.Verdict{}) {
			v.Category = "unknown" // an opinion
		}
		return v
	}
	err := retryexec.Run(s.ctx, &s.policy, func(ctx context.Context) *exec.Cmd {
		code := 0
		if s.operation(ctx) != nil {
			code = firstCode + s.calls - 1
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		// The race detector would let every child sleep for a second at its end.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"="+strconv.Itoa(code))
		return cmd
	})
	s.returned(s.original(t, err, s.calls))
	s.policy.Classifier = p.Classifier
	s.compare(t, (*run).live)
}

// original restores the error of an attempt.
func (s *stage) original(t *testing.T, err error, call int) error {
	t.Helper()
	if e, ok := err.(*retry.Error); ok {
		e.Err, e.Cut = s.original(t, e.Err, s.kept), s.original(t, e.Cut, s.cut)
		return e
	}
	var exit *exec.ExitError
	switch {
	case err == nil || err == s.of(call):
		return err
	case errors.As(err, &exit):
		assert.Equal(t, firstCode+call-1, exit.ExitCode())
	default: // it was not started, because its context has ended
		assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	return s.of(call)
}

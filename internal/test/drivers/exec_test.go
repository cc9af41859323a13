package drivers_test

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
const childEnv = "RETRY_DRIVERS_CHILD"

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

// commands makes every attempt a process. Its time passes before it is started. Only an
// exit status comes back from a failure. So the Classifier knows the verdict about the
// error behind each status, and the errors are restored in the end.
func commands(s *stage) error {
	p := s.policy
	s.policy.Observer = retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
		if e.Kind == retry.Retrying || e.Stop == retry.StopFinal {
			e.Err = s.original(e.Err)
		}
		p.Observer.Observe(ctx, e)
	})
	s.policy.Classifier = func(error) retry.Verdict {
		v, ok := opinion(&p, s.last)
		switch {
		case !ok:
			return retry.Verdict{}
		case v == retry.Verdict{}:
			v.Category = unknownStatus // an opinion: unknown, so it is retried
		}
		return v
	}
	err := retryexec.Run(s.ctx, &s.policy, func(ctx context.Context) *exec.Cmd {
		code := 0
		if err := s.op(ctx); err != nil {
			code = firstCode + len(s.course.attempts) - 1
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		// The race detector would let every child sleep for a second at its end.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"="+strconv.Itoa(code))
		return cmd
	})
	if e, ok := err.(*retry.Error); ok {
		e.Err = s.original(e.Err)
		return e
	}
	return s.original(err)
}

const unknownStatus = "unknown status"

// original returns the error of the last attempt for the error that came back.
func (s *stage) original(err error) error {
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		assert.Equal(s, firstCode+len(s.course.attempts)-1, exit.ExitCode(), "seed %d", s.seed)
		return s.last
	}
	// It was not started, because its context has ended.
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	assert.True(s, ended, "seed %d: %v", s.seed, err)
	return s.last
}

package retryexec_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestFaultsAfterTheStart has readers and writers of the caller that fail, with every errno
// and in the shapes that prove elsewhere that nothing was done. The command was started by
// then, so a non-idempotent one is not run again, whoever classifies.
func TestFaultsAfterTheStart(t *testing.T) {
	t.Parallel()
	shapes := map[string]func(errno syscall.Errno) error{
		"bare":    func(n syscall.Errno) error { return n },
		"syscall": func(n syscall.Errno) error { return os.NewSyscallError("pipe2", n) },
		"dial":    func(n syscall.Errno) error { return &net.OpError{Op: "dial", Net: "tcp", Err: n} },
		"lookup":  func(syscall.Errno) error { return &net.DNSError{IsTemporary: true} },
		"start":   func(n syscall.Errno) error { return &fs.PathError{Op: "fork/exec", Path: "/x", Err: n} },
		"program": func(n syscall.Errno) error { return &exec.Error{Name: "x", Err: n} },
	}
	places := map[string]func(cmd *exec.Cmd, err error){
		"before the input": func(cmd *exec.Cmd, err error) { cmd.Stdin = iotest.ErrReader(err) },
		"in the input": func(cmd *exec.Cmd, err error) {
			cmd.Stdin = io.MultiReader(strings.NewReader("half"), iotest.ErrReader(err))
		},
		"in the output":         func(cmd *exec.Cmd, err error) { cmd.Stdout = writerThatFails{err} },
		"in the error's output": func(cmd *exec.Cmd, err error) { cmd.Stderr = writerThatFails{err} },
	}
	errnos := testkit.Errnos(t)
	for place, prepare := range places {
		for shape, of := range shapes {
			t.Run(place+", "+shape, func(t *testing.T) {
				t.Parallel()
				list := map[string]syscall.Errno{"ECONNREFUSED": 0, "EMFILE": 0, "ENOBUFS": 0, "EAGAIN": 0}
				for name := range list {
					list[name] = errnos[name]
				}
				if place == "before the input" && shape == "bare" {
					list = errnos
				}
				for name, errno := range list {
					once(t, place+", "+shape+", "+name, of(errno), prepare)
				}
			})
		}
	}
}

type writerThatFails struct{ err error }

func (w writerThatFails) Write([]byte) (int, error) { return 0, w.err }

// once checks that a command that fails with err is run once.
func once(t *testing.T, name string, err error, prepare func(*exec.Cmd, error)) {
	t.Helper()
	runs := 0
	newCmd := func(ctx context.Context) *exec.Cmd {
		runs++
		cmd := command(ctx, "copy", "out:output", "err:output")
		prepare(cmd, err)
		return cmd
	}
	p, _ := policy()
	p.NonIdempotent = true
	got := retryexec.Run(t.Context(), p, newCmd)
	require.Error(t, got, name)
	assert.ErrorIs(t, got, err, name)
	assert.ErrorContains(t, got, err.Error(), name)
	assert.Equal(t, 1, runs, name)
	failure := retryexec.Once(t.Context(), newCmd)
	for by, classify := range map[string]retry.Classifier{
		"retryexec.Classify": retryexec.Classify,
		"retry.Classify":     retry.Classify,
		"ClassifyExit":       func(err error) retry.Verdict { return retryexec.ClassifyExit(err, 0, "") },
		"the policy":         (&retry.Policy{Classifier: retryexec.Classify}).Classify,
	} {
		assert.False(t, classify(failure).NotApplied, "%s: %s", name, by)
	}
	want := retryexec.Classify(err)
	want.NotApplied = false
	assert.Equal(t, want, retryexec.Classify(failure), name)
	assert.False(t, retryexec.ClassifyExit(err, 9, "").NotApplied, name)
}

// TestMarkAfterTheStart trusts a reader that knows better, and a rule.
func TestMarkAfterTheStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err        error
		classifier retry.Classifier
	}{
		"a mark": {retry.MarkRetryable(errRead), nil},
		"a rule": {errRead, retryexec.Profile{{
			Err: errRead, Verdict: retry.Verdict{Class: retry.Retryable, NotApplied: true},
		}}.Classify},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			p, _ := policy()
			p.NonIdempotent, p.Classifier = true, tt.classifier
			require.NoError(t, retryexec.Run(t.Context(), p, with(commands("copy"), func(cmd *exec.Cmd) {
				if runs++; runs == 1 {
					cmd.Stdin = iotest.ErrReader(tt.err)
				}
			})))
			assert.Equal(t, 2, runs)
		})
	}
}

// TestCancelThatFails has a Cmd.Cancel that dials, to end the command by an API of its own.
func TestCancelThatFails(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	p, recorder := policy()
	p.NonIdempotent, p.AttemptTimeout, p.Clock = true, 100*time.Millisecond, nil
	err := retryexec.Run(t.Context(), p, with(commands("hang"), func(cmd *exec.Cmd) {
		cmd.Cancel, cmd.WaitDelay = func() error { return refused }, 10*time.Millisecond
	}))
	require.ErrorIs(t, err, retry.StopMaybeApplied)
	assert.Equal(t, verdict(retry.Retryable, "timeout"), recorder.Events()[0].Verdict)
}

// TestStartWithoutFiles has no file descriptors left for the pipes of a command. Nothing ran,
// so even a policy for non-idempotent commands tries again.
//
//nolint:paralleltest // it takes the file descriptors of the process
func TestStartWithoutFiles(t *testing.T) {
	for _, stdin := range []io.Reader{strings.NewReader("input"), nil} {
		t.Run(fmt.Sprintf("%T", stdin), func(t *testing.T) {
			var limit syscall.Rlimit
			require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
			none := limit
			none.Cur = 0
			p, recorder := policy()
			p.NonIdempotent = true
			p.Observer = retry.Observers(recorder, retry.ObserverFunc(func(_ context.Context, e retry.Event) {
				assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			}))
			runs := 0
			err := retryexec.Run(t.Context(), p, with(commands("copy"), func(cmd *exec.Cmd) {
				if cmd.Stdin = stdin; runs == 0 {
					assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
				}
				runs++
			}))
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			require.NoError(t, err)
			assert.Equal(t, 2, runs)
			assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "resources"}, recorder.Events()[0].Verdict)
		})
	}
}

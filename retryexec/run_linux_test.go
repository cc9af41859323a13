package retryexec_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// TestTextFileBusy runs a program that is still being written. Nothing ran, so
// even a policy for non-idempotent commands tries again.
func TestTextFileBusy(t *testing.T) {
	t.Parallel()
	program := testkit.Must(os.ReadFile("/bin/true"))(t)
	file := testkit.Must(os.OpenFile(filepath.Join(t.TempDir(), "true"), os.O_WRONLY|os.O_CREATE, 0o700))(t)
	testkit.Must(file.Write(program))(t)

	p, recorder := policy()
	p.NonIdempotent = true
	// Tests beside this one fork, and their children hold the file for a moment.
	p.MaxAttempts, p.Clock, p.Backoff = 100, nil, retry.Constant(10*time.Millisecond)
	attempts := 0
	require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		if attempts++; attempts == 2 {
			assert.NoError(t, file.Close())
		}
		return exec.CommandContext(ctx, file.Name())
	}))
	first := recorder.Events()[0]
	assert.ErrorIs(t, first.Err, syscall.ETXTBSY)
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "busy"}, first.Verdict)
}

// ownSession starts a process that leaves its group and prints its number.
const ownSession = "setsid sh -c 'echo $$; exec sleep 60' &"

// left runs a shell script that leaves a process behind and prints its number. It
// ends the context once the shell has ended but Run has not.
func left(t *testing.T, script string) (survivor int, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan int, 1)
	var cmd *exec.Cmd
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		err = retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
			cmd = shell(ctx, script)
			cmd.WaitDelay = time.Hour
			cmd.Stdout = onWrite(func(p []byte) {
				n := testkit.Must(strconv.Atoi(strings.TrimSpace(string(p))))(t)
				started <- n
			})
			return cmd
		})
	}()
	survivor = <-started
	t.Cleanup(func() { _ = syscall.Kill(survivor, syscall.SIGKILL) })
	zombie := 0
	require.Eventually(t, func() bool {
		if state(cmd.Process.Pid) == "Z" {
			zombie++
		}
		return zombie == 10 // and not by chance, shortly before it is reaped
	}, 10*time.Second, 5*time.Millisecond)
	cancel()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		require.Fail(t, "hangs")
	}
	return survivor, err
}

// state returns the state of a process as ps shows it, and nothing if there is
// none.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

func alive(pid int) bool { return strings.Trim(state(pid), "ZX") != "" }

// TestNumberIsKept: as long as its group may have to be killed, a process is not
// reaped, so that no other one can get its number.
func TestNumberIsKept(t *testing.T) {
	t.Parallel()
	survivor := testkit.Must(left(t, "sleep 60 & echo $!"))(t)
	assert.Eventually(t, func() bool { return !alive(survivor) }, 10*time.Second, time.Millisecond)
}

// TestSurvivor is a process in a session of its own. It is not killed, but not
// waited for either.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	survivor, err := left(t, ownSession)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, exec.ErrWaitDelay)
	assert.True(t, alive(survivor))
}

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
			p.Observer = retry.Observers(recorder.Observer(), &retry.Observer{Event: func(_ context.Context, e retry.Event) {
				assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			}})
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

// TestKillWithParent kills a process that runs a command, which has to end with it.
func TestKillWithParent(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Close()) }()
	worker := command(t.Context(), "mortal", "out:started", "hang")
	worker.Stdout = w // and the output of the command
	require.NoError(t, worker.Start())
	require.NoError(t, w.Close())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	output := bufio.NewReader(r)
	line := testkit.Must(output.ReadString('\n'))(t)
	require.Equal(t, "started\n", line)

	require.NoError(t, worker.Process.Kill())
	_, err = output.ReadByte()
	assert.Equal(t, io.EOF, err, "the command lives on")
	assert.ErrorContains(t, worker.Wait(), "killed")
}

// TestKillWithParentOutlivesThreads ends threads while a command runs. It is no reason
// to kill the command.
func TestKillWithParentOutlivesThreads(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			go runtime.LockOSThread() // ends its thread
			time.Sleep(100 * time.Microsecond)
		}
	}()
	var commands sync.WaitGroup
	for range 30 {
		commands.Go(func() {
			assert.NoError(t, retryexec.Once(t.Context(), func(ctx context.Context) *exec.Cmd {
				cmd := exec.CommandContext(ctx, "sleep", "0.5")
				retryexec.KillWithParent(cmd)
				return cmd
			}))
		})
	}
	commands.Wait()
}

// TestKillWithParentKeepsSettings leaves what the caller has set, and its value.
func TestKillWithParentKeepsSettings(t *testing.T) {
	t.Parallel()
	cmd, shared := exec.CommandContext(t.Context(), "true"), &syscall.SysProcAttr{Setsid: true}
	cmd.SysProcAttr = shared
	retryexec.KillWithParent(cmd)
	assert.Equal(t, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, cmd.SysProcAttr)
	assert.Equal(t, &syscall.SysProcAttr{Setsid: true}, shared)
	require.NoError(t, retryexec.Once(t.Context(), func(context.Context) *exec.Cmd { return cmd }))
}

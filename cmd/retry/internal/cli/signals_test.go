//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// started is a command whose output is read as it comes.
type started struct {
	*exec.Cmd
	t      *testing.T
	stdout io.Reader
	stderr bytes.Buffer
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{Cmd: command(t, args...), t: t}
	var err error
	s.stdout, err = s.StdoutPipe()
	require.NoError(t, err)
	s.Stderr = &s.stderr
	require.NoError(t, s.Start())
	return s
}

// expect reads a line of the output.
func (s *started) expect(line string) {
	s.t.Helper()
	p := make([]byte, len(line)+1)
	_, err := io.ReadFull(s.stdout, p)
	require.NoError(s.t, err)
	require.Equal(s.t, line+"\n", string(p))
}

// end returns the exit code and the rest of the output.
func (s *started) end() (code int, rest string) {
	s.t.Helper()
	b, err := io.ReadAll(s.stdout)
	require.NoError(s.t, err)
	_ = s.Wait() // the exit code tells
	return s.ProcessState.ExitCode(), string(b)
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(sig))
}

// TestSignalsArePassedOn: the command ends as it likes, is not run again, and its exit
// code is kept.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "-n", "9", "-b", "1ms", "--", "sh", "-c",
				"trap 'echo got; exit 75' "+name+"; echo ready; while :; do sleep 0.05; done")
			s.expect("ready")
			s.signal(sig)
			s.expect("got")
			code, rest := s.end()
			assert.Equal(t, 75, code, s.stderr.String())
			assert.Empty(t, rest)
		})
	}
}

// TestSignalIsNotWhatUntilFailsWaitsFor: a command that fails because it was told to end
// has not failed by itself.
func TestSignalIsNotWhatUntilFailsWaitsFor(t *testing.T) {
	t.Parallel()
	for trap, want := range map[string]int{"exit 75": 75, "exit 0": 123} {
		s := start(t, "--until-fails", "--", "sh", "-c", "trap '"+trap+"' TERM; echo ready; while :; do sleep 0.05; done")
		s.expect("ready")
		s.signal(syscall.SIGTERM)
		code, _ := s.end()
		assert.Equal(t, want, code, s.stderr.String())
	}
}

// TestDiesByTheSignal: the parent sees what has ended retry, as if the command had been its
// own child; also if the command says so by its exit code, as a shell does for its child.
func TestDiesByTheSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for _, script := range []string{
			"echo ready; exec sleep 60",
			// A shell that has just forked may lose an interrupt: what is ready is its child.
			"sh -c 'echo ready; exec sleep 60'; echo never",
			"trap 'exit %d' INT TERM HUP; echo ready; while :; do sleep 0.05; done",
		} {
			s := start(t, "sh", "-c", strings.ReplaceAll(script, "%d", strconv.Itoa(128+int(sig))))
			s.expect("ready")
			s.signal(sig)
			_, rest := s.end()
			assert.Empty(t, rest)
			assert.Equal(t, sig, s.diedBy(), "%s: %s", script, s.stderr.String())
		}
	}
	s := start(t, "sh", "-c", "echo ready; exec sleep 60")
	s.expect("ready")
	s.signal(syscall.SIGQUIT)
	code, _ := s.end()
	assert.Equal(t, 128+int(syscall.SIGQUIT), code)
	assert.NotContains(t, s.stderr.String(), "goroutine")
}

// diedBy returns the signal that has ended the process.
func (s *started) diedBy() syscall.Signal {
	return s.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

// TestIgnoredSignal: under nohup, SIGHUP ends neither retry nor its command.
func TestIgnoredSignal(t *testing.T) {
	t.Parallel()
	cmd := command(t)
	sh := exec.CommandContext(t.Context(), "sh", "-c",
		`trap '' HUP; "$0" sh -c 'echo ready >&2; sleep 0.3; echo done' & while ! test -s err; do sleep 0.01; done; kill -HUP $!; wait $!; echo code $?`, os.Args[0])
	sh.Env, sh.Dir = cmd.Env, cmd.Dir
	file := testkit.Must(os.Create(filepath.Join(cmd.Dir, "err")))(t)
	defer func() { assert.NoError(t, file.Close()) }()
	sh.Stderr = file
	got := testkit.Must(sh.Output())(t)
	assert.Equal(t, "done\ncode 0\n", string(got))
}

// TestSignalThatTheCommandSurvives: the next one is passed on, too, and a command that
// ends well has ended well.
func TestSignalThatTheCommandSurvives(t *testing.T) {
	t.Parallel()
	s := start(t, "--", "sh", "-c",
		"trap 'echo one' INT; trap 'echo two; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
	s.expect("ready")
	s.signal(syscall.SIGINT)
	s.expect("one")
	s.signal(syscall.SIGTERM)
	s.expect("two")
	code, rest := s.end()
	assert.Equal(t, 0, code, s.stderr.String())
	assert.Empty(t, rest)
}

func TestKillAfter(t *testing.T) {
	t.Parallel()
	s := start(t, "--kill-after", "100ms", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	s.expect("ready")
	s.signal(syscall.SIGTERM)
	code, _ := s.end()
	assert.Equal(t, 128+9, code)
}

// TestTimeoutIsGentle: SIGTERM comes first.
func TestTimeoutIsGentle(t *testing.T) {
	t.Parallel()
	got := run(t, "", "-n", "1", "-t", "300ms", "--", "sh", "-c", "trap 'echo bye; exit 3' TERM; while :; do sleep 0.05; done")
	assert.Equal(t, 124, got.code, got.stderr)
	assert.Equal(t, "bye\n", got.stdout)
	assert.Contains(t, got.stderr, "timed out")
}

// TestSignalDuringAWait ends retry at once.
func TestSignalDuringAWait(t *testing.T) {
	t.Parallel()
	cmd := command(t, "-b", "1h", "--", "sh", "-c", "exit 9")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, len("retry: attempt 1 of 3: sh -c 'exit 9': exit status 9"))
	_, err = io.ReadFull(stderr, line)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	began := time.Now()
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait() // the exit code tells
	assert.Equal(t, syscall.SIGTERM, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	assert.Less(t, time.Since(began), 20*time.Second)
}

// onTerminal returns a line for a shell, which runs on a terminal. Where only tests without servers
// are wanted, it leaves out a test on a machine that has no script(1), or no /dev/pts.
func onTerminal(t *testing.T, line string, settings ...string) *exec.Cmd {
	t.Helper()
	script, err := exec.LookPath("script")
	if err == nil {
		err = exec.CommandContext(t.Context(), script, "-qec", "true", os.DevNull).Run()
	}
	if err != nil && os.Getenv("RETRY_TEST_SERVERS") == "none" {
		t.Skip("needs script(1) and a /dev/pts")
	}
	require.NoError(t, err, "script(1) makes no terminal")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a loop that goes on
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, script, "-qec", strings.ReplaceAll(line, "RETRY", os.Args[0]), os.DevNull)
	cmd.WaitDelay = time.Second
	cmd.Env = append(append(os.Environ(), asRetry+"=1", "SHELL=/bin/sh", "TERM=xterm", "NO_COLOR="), settings...)
	cmd.Dir = t.TempDir()
	return cmd
}

// pressCtrlC starts a command, presses Ctrl-C after its first output, and returns the rest.
func pressCtrlC(t *testing.T, cmd *exec.Cmd, first string) string {
	t.Helper()
	keys := testkit.Must(cmd.StdinPipe())(t)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, len(first)))
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond) // exec, what the terminal still has to do, and a shell that has not waited yet
	_, err = keys.Write([]byte{3})
	require.NoError(t, err)
	rest, _ := io.ReadAll(stdout) // a terminal that is gone is an error
	_ = cmd.Wait()                // maybe by a signal
	return string(rest)
}

// TestCountdown: on a terminal, a wait is counted down in its line, which does not wrap.
func TestCountdown(t *testing.T) {
	t.Parallel()
	for columns, line := range map[int]string{0: "retry: attempt 1 of 2: work: exit status 9; again in 0.3s", 20: "…s 9; again in 0.3s"} {
		t.Run(strconv.Itoa(columns), func(t *testing.T) {
			t.Parallel()
			cmd := onTerminal(t, fmt.Sprintf("stty cols %d; RETRY --name work -n 2 -b 350ms -j none -- sh -c 'exit 9'", columns))
			cmd.Stdin = strings.NewReader("")
			got := finish(t, cmd)
			assert.Equal(t, 9, got.code)
			frames := strings.Split(got.stdout, "\r\x1b[K")
			require.GreaterOrEqual(t, len(frames), 4, "%q", got.stdout)
			assert.Contains(t, frames, line)
			assert.Regexp(t, `^retry: attempt 1 of 2: work: exit status 9; again in 350ms\r\nretry: gave up`, frames[len(frames)-1])
			for _, frame := range frames[1 : len(frames)-1] {
				assert.LessOrEqual(t, len([]rune(frame)), len([]rune(line)))
			}
		})
	}
}

// TestNoEscapeCodes: a terminal that knows none gets whole lines.
func TestNoEscapeCodes(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"TERM=dumb", "NO_COLOR=1"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			cmd := onTerminal(t, "RETRY --name work -n 2 -b 350ms -j none -- sh -c 'exit 9'", setting)
			cmd.Stdin = strings.NewReader("")
			got := finish(t, cmd)
			assert.Equal(t, 9, got.code)
			assert.Regexp(t, `^retry: attempt 1 of 2: work: exit status 9; again in 350ms\r\nretry: gave up [^\r\x1b]*\r\n$`, got.stdout)
		})
	}
}

// TestCtrlC: what the terminal sends to both of them reaches the command once.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{"from the terminal": "", "from a pipe": "echo x | "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := onTerminal(t, "trap : INT; "+input+"RETRY -b 1ms -- sh job; echo code $?")
			job := "trap 'echo got >>log; ended=1' INT; echo ready; while test -z \"$ended\"; do sleep 0.05; done; sleep 0.3; exit 75"
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "job"), []byte(job), 0o600))
			rest := pressCtrlC(t, cmd, "ready\r\n")
			assert.Contains(t, rest, "retry: ended by a signal after 1 attempt in ")
			assert.Contains(t, rest, "code 75")
			got := testkit.Must(os.ReadFile(filepath.Join(cmd.Dir, "log")))(t)
			assert.Equal(t, "got\n", string(got))
		})
	}
}

// TestCtrlCEndsALoop: a shell goes on with its script if the command has ended by a code.
func TestCtrlCEndsALoop(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash", "zsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for name, line := range map[string]string{
			"a run": "RETRY sh -c 'echo ready; exec sleep 60'", "a wait": "RETRY -b 1h -m 1h sh -c 'echo ready; exit 1'",
			"a run with a pipe": "echo x | RETRY sh -c 'echo ready; exec sleep 60'",
		} {
			t.Run(shell+", "+name, func(t *testing.T) {
				t.Parallel()
				cmd := onTerminal(t, shell+" loop", "TERM=dumb")
				text := "for i in 1 2 3; do " + strings.ReplaceAll(line, "RETRY", os.Args[0]) + "; done; echo went on\n"
				require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "loop"), []byte(text), 0o600))
				first := "ready\r\n"
				if strings.Contains(line, "exit 1") {
					first += "retry: attempt 1 of 3" // the wait follows
				}
				began := time.Now()
				rest := pressCtrlC(t, cmd, first)
				assert.Less(t, time.Since(began), 15*time.Second, "the loop goes on: %s", rest)
				assert.NotContains(t, rest, "\nready")
				assert.NotContains(t, rest, "went on")
			})
		}
	}
}

func TestLeftBehind(t *testing.T) {
	t.Parallel()
	cmd := command(t, "--kill-after", "300ms", "--", "sh", "-c", "sleep 60 >/dev/null & echo $! >pid")
	got := finish(t, cmd)
	assert.Equal(t, 0, got.code, got.stderr)
	pid := testkit.Must(os.ReadFile(filepath.Join(cmd.Dir, "pid")))(t)
	_ = exec.CommandContext(t.Context(), "kill", strings.TrimSpace(string(pid))).Run() // it may have ended
}

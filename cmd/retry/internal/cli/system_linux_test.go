package cli_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	asInit = "TEST_AS_INIT" // lets the command get orphans, as the process with the number 1 does
	asSoak = "TEST_AS_SOAK" // says how long the command watches itself before it ends
)

// prepare prepares the command for a test.
func prepare() {
	if os.Getenv(asInit) != "" {
		const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, https://man7.org/linux/man-pages/man2/prctl.2.html
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
			panic(errno)
		}
	}
	if os.Getenv(asSoak) != "" {
		go watch()
	}
}

// TestKilledWithItsCommand: neither a run nor the command of --until lives on when
// retry is killed.
func TestKilledWithItsCommand(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a run":   {"--", "sh", "-c", "echo ready >&3; exec sleep 60"},
		"--until": {"-n", "1", "--until", "echo ready >&3; exec sleep 60", "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe() // whose other end is open as long as somebody who inherits it lives
			require.NoError(t, err)
			defer func() { assert.NoError(t, r.Close()) }()
			cmd := command(t, args...)
			cmd.ExtraFiles = []*os.File{w}
			require.NoError(t, cmd.Start())
			require.NoError(t, w.Close())
			require.NoError(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
			_, err = io.ReadFull(r, make([]byte, len("ready\n")))
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Kill())
			_, err = r.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err, "the command lives on")
			assert.ErrorContains(t, cmd.Wait(), "killed")
		})
	}
}

// TestOrphansAreReaped: a run waits until an orphan is gone, which a zombie never is. Other
// orphans end together with the runs, whose exit codes stay theirs.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"during a run": "(sleep 0.01 & echo $! >pid); while test -e /proc/$(cat pid); do sleep 0.01; done; test $n != 3",
		"at its end":   "(true &); (exec true &); exit $((n > 19 ? 8 : 7))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, quick(append([]string{"-n", "unlimited", "--until-fails", "--on-exit", "7"}, counting(script)...)...)...)
			cmd.Env = append(cmd.Env, asInit+"=1")
			got := finish(t, cmd)
			assert.Equal(t, 0, got.code, got.stderr)
			for line := range strings.Lines(got.stderr) {
				assert.Regexp(t, `^retry: attempt \d+: work: (exit status 7|the command succeeded, but .*); again in 1ms\n$`, line)
			}
		})
	}
}

// usage is what a process has of the system: the least in a while with many runs, which is
// that between two of them.
type usage struct{ Goroutines, Descriptors, Heap, RSS int }

func measure() usage {
	least := usage{1 << 60, 1 << 60, 1 << 60, 1 << 60}
	for i := range 300 {
		if i%10 == 0 {
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			least.Heap = min(least.Heap, int(memory.HeapAlloc))
		}
		files, _ := os.ReadDir("/proc/self/fd")
		statm, _ := os.ReadFile("/proc/self/statm")
		pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
		least.Goroutines = min(least.Goroutines, runtime.NumGoroutine())
		least.Descriptors = min(least.Descriptors, len(files))
		least.RSS = min(least.RSS, pages*os.Getpagesize())
		time.Sleep(time.Millisecond)
	}
	return least
}

// watch measures the command after a tenth of its time and at the end, and ends it.
func watch() {
	d, _ := time.ParseDuration(os.Getenv(asSoak))
	time.Sleep(d / 10)
	first := measure()
	time.Sleep(d - d/10)
	out := os.NewFile(3, "result")
	_ = json.NewEncoder(out).Encode([]usage{first, measure()})
	_ = out.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
}

// TestSoakOfASilentStdin: no run leaves anything behind, while nobody writes to the standard
// input. RETRY_TEST_SOAK=10m is the long form.
func TestSoakOfASilentStdin(t *testing.T) {
	t.Parallel()
	d, slack := os.Getenv("RETRY_TEST_SOAK"), 0
	if d == "" {
		d, slack = "3s", 1<<20 // for a start that is not over; 30 runs leave as much if they leave a buffer
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	silent, keepOpen, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-n", "unlimited", "-b", "5ms", "-j", "none", "--hold-stdout", "--", "sh", "-c", "echo x; echo x >>runs; exit 75")
	cmd.Env = append(os.Environ(), asRetry+"=1", asSoak+"="+d)
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.ExtraFiles = silent, []*os.File{w}
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	result, err := io.ReadAll(r)
	require.NoError(t, err)
	_ = cmd.Wait() // the signal comes at any time
	var got []usage
	require.NoError(t, json.Unmarshal(result, &got))
	runs, err := os.ReadFile(cmd.Dir + "/runs")
	require.NoError(t, err)
	t.Logf("%v, %d runs: %+v", d, strings.Count(string(runs), "x"), got)
	first, last := got[0], got[1]
	assert.LessOrEqual(t, last.Goroutines, first.Goroutines)
	assert.LessOrEqual(t, last.Descriptors, first.Descriptors)
	assert.LessOrEqual(t, last.Heap, first.Heap+first.Heap/20+slack)
	assert.LessOrEqual(t, last.RSS, first.RSS+first.RSS/20+4*slack)
	require.NoError(t, keepOpen.Close())
}

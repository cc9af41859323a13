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

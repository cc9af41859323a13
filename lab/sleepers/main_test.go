package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// The processes that run starts are this test again.
func TestMain(m *testing.M) {
	if child(os.Stdout) {
		return
	}
	os.Exit(m.Run())
}

// Every contestant calls, sleeps for as long as it was told, and calls again.
func TestSleepsTheWholeWait(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 10
				d := sleep(p, n, time.Hour)
				synctest.Wait()
				require.NoError(t, d.check())
				time.Sleep(time.Hour - time.Nanosecond)
				require.NoError(t, d.check())
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.EqualValues(t, 2*n, d.calls.Load())
				assert.EqualValues(t, n, d.awake.Load())
				d.cancel()
			})
		})
	}
}

// Every contestant returns when its context ends, and leaves nothing behind: the
// bubble would not end otherwise.
func TestCancelEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 10
				start := time.Now()
				d := sleep(p, n, time.Hour)
				synctest.Wait()
				require.NoError(t, d.check())
				d.cancel()
				d.returned.Wait()
				assert.Zero(t, time.Since(start))
				assert.EqualValues(t, n, d.calls.Load(), "another attempt")
			})
		})
	}
}

// check tells calls that sleep from those that do not.
func TestCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := sleep(peers[0], 2, time.Hour)
		require.Error(t, d.check(), "not yet")
		synctest.Wait()
		require.NoError(t, d.check())
		d.cancel()
		d.returned.Wait()
		require.Error(t, d.check(), "no more")
	})
}

// A round of everything in small, in processes of their own.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what      string
		n         string
		benchmark string
		by        []string
		want      string
	}{
		{"sleepers", "1000", "Sleepers", peerNames(), `1 \d+ B/sleeper \d+ stack-B/sleeper`},
		{"pool-none", "1000", "Pool/context=none", onlyOurs(), `1 \d+ B/task`},
		{"pool-shared", "1000", "Pool/context=shared", onlyOurs(), `1 \d+ B/task`},
		{"pool-own", "1000", "Pool/context=own", onlyOurs(), `1 \d+ B/task`},
		{"cancel", "1000", "Cancel", peerNames(), `5 \d+ ns/op 0 goroutines-left`},
		{"accuracy", "3", "Accuracy", peerNames(), `3 \d+ p50-ns \d+ p99-ns`},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), []string{"-what", test.what, "-n", test.n}, &out))
			lines := regexp.MustCompile(`(?m)^Benchmark.*$`).FindAllString(out.String(), -1)
			require.Len(t, lines, len(test.by))
			for i, by := range test.by {
				assert.Regexp(t, "^Benchmark"+test.benchmark+"/by="+by+" "+test.want+"$", lines[i])
			}
		})
	}
}

// What is chosen is chosen by whole names, and is measured in every round.
func TestChoice(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(),
		[]string{"-rounds", "2", "-what", "cancel|accuracy", "-only", "hand|retry", "-n", "1"}, &out))
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^Benchmark(\S+)`).FindAllStringSubmatch(out.String(), -1) {
		got = append(got, m[1])
	}
	round := []string{"Cancel/by=hand", "Cancel/by=retry", "Accuracy/by=hand", "Accuracy/by=retry"}
	assert.Equal(t, append(round, round...), got)
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-what", "("}, {"-only", "("}, {"-no-such-flag"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}))
	}
}

// What goes wrong in a process is an error here.
func TestFailureIsReported(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, start(t.Context(), &bytes.Buffer{}, "sleepers", "nobody", 1), "exit status 1")
	require.Error(t, measure("nothing", "hand", 1, &bytes.Buffer{}))
}

// The stacks of calls that only wait are seen, 2 KiB each or more, and what is not
// stack: a timer and its channel, at least.
func TestMemorySeesStacks(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-what", "sleepers", "-only", "hand", "-n", "10000"}, &out))
	m := regexp.MustCompile(` (\d+) B/sleeper (\d+) stack-B/sleeper`).FindStringSubmatch(out.String())
	require.NotNil(t, m)
	all := testkit.Must(strconv.Atoi(m[1]))(t)
	stack := testkit.Must(strconv.Atoi(m[2]))(t)
	assert.Greater(t, stack, 2048*9/10)
	assert.Greater(t, all-stack, 200)
}

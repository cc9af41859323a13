package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is the program itself where the demonstration or a test starts it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
		return
	}
	os.Exit(m.Run())
}

// A job whose worker dies by kill -9 is done by another, and the lost attempt counts.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, demonstrate(t.Context(), &out))
	assert.Regexp(t, `(?s)worker 1  job 1, attempt 1: done
.* worker 1  job 2, attempt 1: half of it
.* worker 1  is killed by kill -9
.* worker 2  starts as process \d+
.* worker 2  job 3, attempt 1: done
.* worker 2  job 2, attempt 1: retry: worker lost; again: true
.* worker 2  job 2, attempt 2: done
.* table     job 1: done, attempts 1, receipts 1
.* table     job 2: done, attempts 2, receipts 1
.* table     job 3: done, attempts 1, receipts 1
$`, out.String())
}

// A worker that is told to stop gives its job back, without an attempt.
func TestStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.db")
	db, err := open(t.Context(), file)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "INSERT INTO jobs DEFAULT VALUES")
	require.NoError(t, err)
	state := func() (s string) {
		assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT status || ' ' || attempts FROM jobs").Scan(&s))
		return s
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, file) }()
	require.Eventually(t, func() bool { return state() == "running 1" }, 10*time.Second, time.Millisecond)
	stop()
	assert.ErrorIs(t, <-ended, context.Canceled)
	assert.Equal(t, "ready 0", state())
}

// Only a database is an argument.
func TestArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"a.db b.db":              `one database at a time: ["a.db" "b.db"]`,
		"postgres://x/y":         "unable to open database file",
		t.TempDir() + "/no/file": "unable to open database file",
	} {
		out, err := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(args)...).CombinedOutput()
		assert.EqualError(t, err, "exit status 1", args)
		assert.Contains(t, string(out), want, args)
	}
}

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
	isWorker := len(os.Args) > 1 && os.Args[1] == "work"
	if isWorker || os.Getenv("WORKER_TEST_MAIN") != "" {
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

// A command has its flags and no others; a program without a command explains itself.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "worker work -db jobs.db"},
		{"-h", 0, "worker demo"},
		{"jobs.db", 2, "worker work -db jobs.db"},
		{"-db jobs.db", 2, "flag provided but not defined: -db"},
		{"work", 2, "worker work -db jobs.db"},
		{"work -db", 2, "flag needs an argument: -db"},
		{"work -db a.db b.db", 2, "worker work -db jobs.db"},
		{"work -h", 0, "-db file"},
		{"demo -db a.db", 2, "worker demo"},
		{"work -db postgres://x/y", 1, "unable to open database file"},
		{"work -db " + t.TempDir() + "/no/file", 1, "unable to open database file"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(tt.args)...)
		cmd.Env = append(os.Environ(), "WORKER_TEST_MAIN=1")
		out, _ := cmd.CombinedOutput()
		assert.Equal(t, tt.code, cmd.ProcessState.ExitCode(), tt.args)
		assert.Contains(t, string(out), tt.want, tt.args)
	}
}

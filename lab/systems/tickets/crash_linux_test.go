package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// The command of an engine that is killed ends with it, or it would run on beside its
// own retry.
func TestKilledEngineEndsItsCommand(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	migrate(t, db)
	dbtest.Exec(t, db, "CREATE TABLE runs (ticket_id bigint NOT NULL)") // of crashWorker
	said, never := filepath.Join(t.TempDir(), "said"), filepath.Join(t.TempDir(), "never")
	require.NoError(t, syscall.Mkfifo(said, 0o600))
	require.NoError(t, syscall.Mkfifo(never, 0o600))
	_, err := add(t.Context(), db, "shell", "exec 3> "+said+"; echo began >&3; read x < "+never, "agent", 0)
	require.NoError(t, err)
	reader, err := os.OpenFile(said, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, reader.Close()) }()

	engine := exec.CommandContext(t.Context(), os.Args[0])
	engine.Env = append(os.Environ(), dbtest.WorkerEnv(db.DSN))
	stdin, err := engine.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	require.NoError(t, engine.Start())
	require.NoError(t, reader.SetReadDeadline(time.Now().Add(20*time.Second)))
	output := bufio.NewReader(reader)
	line, err := output.ReadString('\n')
	for err == io.EOF { // nobody has opened it yet
		time.Sleep(10 * time.Millisecond)
		line, err = output.ReadString('\n')
	}
	require.NoError(t, err)
	require.Equal(t, "began\n", line)

	require.NoError(t, engine.Process.Kill())
	_, err = output.ReadByte()
	assert.Equal(t, io.EOF, err, "the command lives on")
	assert.ErrorContains(t, engine.Wait(), "killed")
}

package retryexec_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestTextFileBusy runs a program that is still being written. Nothing ran, so
// even a policy for non-idempotent commands tries again.
func TestTextFileBusy(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "true"), os.O_WRONLY|os.O_CREATE, 0o700)
	require.NoError(t, err)
	_, err = file.Write(program)
	require.NoError(t, err)

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

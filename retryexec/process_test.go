package retryexec_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestNothingToRun are mistakes in newCmd. All are final.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	used := command(t.Context())
	require.NoError(t, used.Run())
	tests := []struct {
		name   string
		newCmd func(context.Context) *exec.Cmd
		want   string
	}{
		{"no function", nil, "retryexec: newCmd is nil"},
		{"no command", func(context.Context) *exec.Cmd { return nil }, "retryexec: newCmd returned nil"},
		{
			"used before", func(context.Context) *exec.Cmd { return used },
			"retryexec: newCmd must return a new Cmd: exec: already started",
		},
		{"empty", func(context.Context) *exec.Cmd { return &exec.Cmd{} }, "exec: no command"},
		{"Cancel without a context", func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx)
			bare := exec.Command(cmd.Path)
			bare.Cancel = cmd.Cancel
			return bare
		}, "exec: command with a non-nil Cancel was not created with CommandContext"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			err := retryexec.Run(t.Context(), p, tt.newCmd)
			require.EqualError(t, err, tt.want)
			assert.Equal(t, retry.Final, retry.Classify(err).Class)
			assert.LessOrEqual(t, len(recorder.Events()), 1)
		})
	}
}

// TestStartErrors provokes failures to start a command.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	tests := []struct {
		name   string
		newCmd func(context.Context) *exec.Cmd
		is     error
	}{
		{"not in the path", retryexec.Command("retryexec-no-such-program"), exec.ErrNotFound},
		{"no such file", retryexec.Command(filepath.Join(dir, "none")), fs.ErrNotExist},
		{"no such directory", with(commands(), func(cmd *exec.Cmd) { cmd.Dir = filepath.Join(dir, "none") }), fs.ErrNotExist},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			err := retryexec.Run(t.Context(), p, tt.newCmd)
			require.ErrorIs(t, err, tt.is)
			assert.Equal(t, []string{"final not_found"}, categories(recorder))
			if tt.name == "no such directory" {
				assert.Contains(t, err.Error(), "chdir")
			}
		})
	}
}

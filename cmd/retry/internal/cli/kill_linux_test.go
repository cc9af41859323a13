package cli_test

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

package retryexec_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestCommandPassesOutputThrough runs a program that runs Command, because the
// output of the tests themselves belongs to the go command.
func TestCommandPassesOutputThrough(t *testing.T) {
	t.Parallel()
	tests := []struct{ verb, stdout string }{
		{"run", "text\nerror: failed after 1 attempt: exit status 3: noise\n"},
		{"once", "text\nerror: exit status 3: noise\n"},
		{"output", "output \"text\\n\"\nerror: failed after 1 attempt: exit status 3: noise\n"},
	}
	for _, tt := range tests {
		t.Run(tt.verb, func(t *testing.T) {
			t.Parallel()
			cmd := command(t.Context(), tt.verb, "out:text", "err:noise", "exit:3")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Run())
			assert.Equal(t, tt.stdout, stdout.String())
			assert.Equal(t, "noise\n", stderr.String())
		})
	}
}

func TestCommandIsNewEachTime(t *testing.T) {
	t.Parallel()
	args := []string{"a"}
	newCmd := retryexec.Command("x", args...)
	args[0] = "b"
	first := newCmd(t.Context())
	assert.NotSame(t, first, newCmd(t.Context()))
	assert.Equal(t, []string{"x", "a"}, first.Args)
	assert.Equal(t, os.Stdout, first.Stdout)
	assert.Equal(t, os.Stderr, first.Stderr)
	assert.Nil(t, first.Stdin)
}

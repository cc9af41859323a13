package retryexec_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// onWrite is a writer that calls a function.
type onWrite func(p []byte)

func (f onWrite) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestRunPassesOutputToFiles(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	newCmd := scripts([]string{"err:one", "exit:75"}, []string{"err:two", "exit:77"})
	err = retryexec.Run(t.Context(), p, with(newCmd, func(cmd *exec.Cmd) { cmd.Stderr = file }))
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, "two\n", string(exit.Stderr), "of the last attempt only")
	log, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(log))
}

// TestRunWithOneWriterForAll fails under the race detector if both streams are
// written at once, and if their order is lost.
func TestRunWithOneWriterForAll(t *testing.T) {
	t.Parallel()
	var script, want []string
	for i := range 100 {
		script = append(script, fmt.Sprintf("out:%d", i), fmt.Sprintf("err:%d", i))
		want = append(want, fmt.Sprintf("%d\n%d\n", i, i))
	}
	var all bytes.Buffer
	err := retryexec.Run(t.Context(), &retry.Policy{MaxAttempts: 1}, with(commands(append(script, "exit:77")...), func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr = &all, &all
	}))
	assert.Equal(t, strings.Join(want, ""), all.String())
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, strings.Join(want, ""), string(exit.Stderr))

	// A writer that cannot be compared does not cause a panic.
	require.NoError(t, retryexec.Run(t.Context(), nil, with(commands(), func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr = onWrite(func([]byte) {}), onWrite(func([]byte) {})
	})))
}

func TestRunKeepsBothEndsOfStderr(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	for _, n := range []int{0, 1, size - 100, size, 2 * size, 2*size - 4, 1 << 20, 1<<20 + 5} {
		p, recorder := policy()
		var all bytes.Buffer
		err := retryexec.Run(t.Context(), p, with(commands("err:forbidden", fmt.Sprintf("fill:%d", n), "err: host key verification failed", "exit:1"), func(cmd *exec.Cmd) {
			cmd.Stderr = &all
		}))
		exit := testkit.As[*exec.ExitError](t, err)
		want := all.String()
		if len(want) > 2*size {
			want = want[:size] + "\n[...]\n" + want[len(want)-size:]
		}
		assert.Equal(t, want, string(exit.Stderr), "%d", n)
		assert.Equal(t, []string{"final stderr_auth"}, categories(recorder))
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	out, err := retryexec.Output(t.Context(), p, scripts(
		[]string{"out:half of a long answer", "exit:1"},
		[]string{"out:all", "err:noise"},
	))
	require.NoError(t, err)
	assert.Equal(t, "all\n", string(out), "of the last attempt only")

	p, _ = policy()
	out, err = retryexec.Output(t.Context(), p, scripts([]string{"out:first", "exit:1"}, []string{"out:second", "err:x", "exit:77"}))
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, "second\n", string(out), "beside the error")
	assert.Equal(t, "x\n", string(exit.Stderr))

	out, err = retryexec.Output(t.Context(), nil, with(commands("out:x"), func(cmd *exec.Cmd) { cmd.Stdout = io.Discard }))
	require.EqualError(t, err, "retryexec: Output needs Cmd.Stdout, which newCmd has set")
	assert.Empty(t, out)
}

package retryexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// copying makes commands that copy stdin to stdout, the first of which fails.
func copying(stdin io.Reader, stdout io.Writer) func(context.Context) *exec.Cmd {
	newCmd := scripts([]string{"copy", "exit:1"}, []string{"copy"})
	return with(newCmd, func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout = stdin, stdout })
}

// inputFile is a file that holds and stands in front of its second byte.
func inputFile(t *testing.T, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	file := testkit.Must(os.Open(path))(t)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	return file
}

// after returns r from start on.
func after[R io.Seeker](t *testing.T, r R, start int64) R {
	t.Helper()
	testkit.Must(r.Seek(start, io.SeekStart))(t)
	return r
}

// TestInputIsGivenAgain uses one reader for all attempts.
func TestInputIsGivenAgain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1<<20)
	for _, tt := range []struct {
		name  string
		stdin func() io.Reader
		want  string
	}{
		{"none", func() io.Reader { return nil }, ""},
		{"string", func() io.Reader { return strings.NewReader("input") }, "input"},
		{"rest of a string", func() io.Reader { return after(t, strings.NewReader("input"), 2) }, "put"},
		{"more than a pipe holds", func() io.Reader { return strings.NewReader(long) }, long},
		{"bytes", func() io.Reader { return bytes.NewReader([]byte("input")) }, "input"},
		{"buffer", func() io.Reader { return bytes.NewBufferString("input") }, "input"},
		{"section", func() io.Reader { return io.NewSectionReader(strings.NewReader("input"), 1, 3) }, "npu"},
		{"file", func() io.Reader { return inputFile(t, "input") }, "input"},
		{"rest of a file", func() io.Reader { return after(t, inputFile(t, "input"), 3) }, "ut"},
		{"reader without anything", func() io.Reader { return io.MultiReader() }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _ := policy()
			var stdout bytes.Buffer
			require.NoError(t, retryexec.Run(t.Context(), p, copying(tt.stdin(), &stdout)))
			assert.Equal(t, tt.want+tt.want, stdout.String(), "in Run")

			p, _ = policy()
			newCmd := copying(tt.stdin(), nil)
			out := testkit.Must(retryexec.Output(t.Context(), p, newCmd))(t)
			assert.Equal(t, tt.want, string(out), "in Output")

			stdout.Reset()
			newCmd = copying(tt.stdin(), &stdout)
			require.Error(t, retryexec.Once(t.Context(), newCmd))
			require.NoError(t, retryexec.Once(t.Context(), newCmd))
			assert.Equal(t, tt.want+tt.want, stdout.String(), "in Once")
		})
	}
}

func TestInputOfANewReaderEachTime(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	var stdout bytes.Buffer
	newCmd := scripts([]string{"copy", "exit:1"}, []string{"copy"})
	require.NoError(t, retryexec.Run(t.Context(), p, with(newCmd, func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout = iotest.OneByteReader(strings.NewReader("input")), &stdout
	})))
	assert.Equal(t, "inputinput", stdout.String())
}

// TestSpentInput ends the call rather than to run the command without its input.
func TestSpentInput(t *testing.T) {
	t.Parallel()
	for name, stdin := range map[string]io.Reader{
		"cannot seek": iotest.OneByteReader(strings.NewReader("input")),
		"fails to":    brokenSeeker{strings.NewReader("input")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			var stdout bytes.Buffer
			newCmd := commands("copy", "err:connection refused", "exit:1")
			err := retryexec.Run(t.Context(), p, with(newCmd, func(cmd *exec.Cmd) {
				cmd.Stdin, cmd.Stdout = stdin, &stdout
			}))
			require.EqualError(t, err, "exit status 1: connection refused "+
				"(not run again: Cmd.Stdin cannot be read twice: set it to a new reader for each attempt)")
			assert.ErrorAs(t, err, new(*exec.ExitError))
			assert.Equal(t, []string{"retryable stderr_transient", "final stdin_spent"}, categories(recorder))
			assert.Equal(t, "input", stdout.String(), "the second attempt does not run")
		})
	}
}

// brokenSeeker tells where it is and cannot go there.
type brokenSeeker struct{ io.ReadSeeker }

func (s brokenSeeker) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		return 0, errRead
	}
	return s.ReadSeeker.Seek(offset, whence)
}

var errRead = errors.New("disk on fire")

// TestInputOfACommandThatDidNotStart is not spent.
func TestInputOfACommandThatDidNotStart(t *testing.T) {
	t.Parallel()
	stdin := iotest.OneByteReader(strings.NewReader("input"))
	p, _ := policy()
	p.Classifier = retry.On(retry.Retryable, exec.ErrNotFound)
	attempts := 0
	out := testkit.Must(retryexec.Output(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx, "copy")
		if attempts++; attempts == 1 {
			cmd = exec.CommandContext(ctx, "retryexec-no-such-program")
		}
		cmd.Stdin = stdin
		return cmd
	}))(t)
	assert.Equal(t, "input", string(out))
}

// TestInputThatCannotBeCompared does not panic.
func TestInputThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	var stdout bytes.Buffer
	stdin := readers{iotest.OneByteReader(strings.NewReader("input"))}
	require.NoError(t, retryexec.Run(t.Context(), p, copying(stdin, &stdout)))
	assert.Equal(t, "input", stdout.String(), "as without this package")
}

type readers []io.Reader

func (r readers) Read(p []byte) (int, error) { return r[0].Read(p) }

// TestInputThatNobodyReads ends with the command.
func TestInputThatNobodyReads(t *testing.T) {
	t.Parallel()
	require.NoError(t, retryexec.Once(t.Context(), with(commands("exit:0"), func(cmd *exec.Cmd) { cmd.Stdin = endless{} })))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestInputFromAPipe is read by the command itself: an attempt gets the input
// that earlier attempts have left.
func TestInputFromAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	testkit.Must(w.WriteString("input"))(t)
	require.NoError(t, w.Close())
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	p, _ := policy()
	var stdout bytes.Buffer
	require.NoError(t, retryexec.Run(t.Context(), p, copying(r, &stdout)))
	assert.Equal(t, "input", stdout.String())
}

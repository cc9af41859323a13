package cli_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

func TestStdinIsReplayed(t *testing.T) {
	t.Parallel()
	script := counting("cat; test $n = 3 || exit 75")
	got := run(t, "hello\n", quick(append([]string{"-q"}, script...)...)...) // a pipe
	assert.Equal(t, result{0, strings.Repeat("hello\n", 3), ""}, got)

	cmd := command(t, quick(append([]string{"-q"}, script...)...)...)
	name := filepath.Join(cmd.Dir, "input")
	require.NoError(t, os.WriteFile(name, []byte("hello\n"), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	cmd.Stdin = file
	assert.Equal(t, result{0, strings.Repeat("hello\n", 3), ""}, finish(t, cmd))
}

// TestStdinOfARunThatReadsLittle: the next one starts at the beginning all the same.
func TestStdinOfARunThatReadsLittle(t *testing.T) {
	t.Parallel()
	input := strings.Repeat("line\n", 100_000)
	got := run(t, input, quick(append([]string{"-q"}, counting("test $n = 3 || { head -n 1 >head; exit 75; }; wc -l")...)...)...)
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "100000", strings.TrimSpace(got.stdout))
}

// TestStdinComesAsItComes: a run does not wait for the end of its input.
func TestStdinComesAsItComes(t *testing.T) {
	t.Parallel()
	cmd := command(t, quick(append([]string{"-q"}, counting("read line; echo $line; test $n = 2 || exit 75")...)...)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	_, err = io.WriteString(in, "first\n")
	require.NoError(t, err)
	began := time.Now()
	assert.Equal(t, result{0, strings.Repeat("first\n", 2), ""}, finish(t, cmd)) // the input never ends
	assert.Less(t, time.Since(began), 9*time.Second, "nobody waits for the input")
}

func TestNoStdin(t *testing.T) {
	t.Parallel()
	got := run(t, "hello\n", "--no-stdin", "--", "cat")
	assert.Equal(t, result{0, "", ""}, got)
}

func TestSpool(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcde\n"), (cli.InMemory+1<<20)/16)
	s := cli.NewSpool(bytes.NewReader(content))
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			got, err := io.ReadAll(s.Reader())
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(content, got))
		})
	}
	group.Wait()
	s.Close()
}

// TestSpoolReadsWhatIsWanted: a source is not read before somebody asks.
func TestSpoolReadsWhatIsWanted(t *testing.T) {
	t.Parallel()
	source, in := io.Pipe()
	s := cli.NewSpool(source)
	reader := s.Reader()
	go func() { _, _ = in.Write([]byte("ab")) }()
	p := make([]byte, 1)
	for _, want := range []string{"a", "b"} {
		_, err := io.ReadFull(reader, p)
		require.NoError(t, err)
		assert.Equal(t, want, string(p))
	}
	_ = in.CloseWithError(io.ErrUnexpectedEOF)
	_, err := reader.Read(p)
	assert.Equal(t, io.ErrUnexpectedEOF, err)
	again, err := io.ReadAll(s.Reader())
	assert.Equal(t, "ab", string(again))
	assert.Equal(t, io.ErrUnexpectedEOF, err)
}

package cli_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestStdinIsReplayed: a run that --until rejects has read it too.
func TestStdinIsReplayed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		append([]string{"-q"}, counting("cat; test $n = 3 || exit 75")...),
		append([]string{"-q", "--until", "test $(wc -l <runs) = 3"}, counting("cat")...),
		append([]string{"-q", "--until-fails"}, counting("cat; test $n -lt 3")...),
	} {
		cmd := command(t, quick(args...)...)
		cmd.Stdin = file(t, "skipped hello\n", len("skipped "))
		assert.Equal(t, result{0, strings.Repeat("hello\n", 3), ""}, finish(t, cmd), args)
		assert.Equal(t, result{0, strings.Repeat("hello\n", 3), ""}, run(t, "hello\n", quick(args...)...), "a pipe, %v", args)
	}
}

// file returns a file that is read from an offset on.
func file(t *testing.T, content string, offset int) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	f, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	_, err = f.Seek(int64(offset), io.SeekStart)
	require.NoError(t, err)
	return f
}

// TestStdinThatCannotBeKept is a fault, also of a single run, and is said with -q too.
func TestStdinThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"1", "3", "unlimited"} {
		for _, script := range []string{"cat >part; echo whole", "trap 'exit 0' TERM; cat >part; echo whole"} {
			cmd := command(t, quick("-q", "-n", n, "--", "sh", "-c", script)...)
			cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(cmd.Dir, "missing\a"))
			cmd.Stdin = io.LimitReader(zeros{}, cli.InMemory+1<<20)
			got := finish(t, cmd)
			assert.Equal(t, 125, got.code, n)
			assert.Empty(t, got.stdout, "it takes a part of its input for all of it")
			assert.Regexp(t, `(^|\n)retry: standard input cannot be kept for the next run: open /.*/missing\\a/retry-stdin-\d+: `+
				"no such file or directory; set TMPDIR to a folder with room, or use --no-stdin\n$", got.stderr)
		}
	}
}

// TestStdinThatNobodyWants is kept no further than it is read, so that nothing is wrong.
func TestStdinThatNobodyWants(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"exit 0", "head -c 9 >part", "exec <&-; sleep 0.1", "sleep 0.1"} {
		cmd := command(t, "--", "sh", "-c", script)
		cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(cmd.Dir, "missing"))
		r, w, err := os.Pipe()
		require.NoError(t, err)
		go func() {
			_, _ = io.Copy(w, zeros{}) // until nobody reads
			_ = w.Close()
		}()
		cmd.Stdin = r
		assert.Equal(t, result{0, "", ""}, finish(t, cmd), script)
		require.NoError(t, r.Close())
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestStdinThatIsReset ends the run, which does not get to know an end of its input.
func TestStdinThatIsReset(t *testing.T) {
	t.Parallel()
	listener := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { assert.NoError(t, listener.Close()) }()
	peer := testkit.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String()))(t)
	conn := testkit.Must(listener.Accept())(t)
	stdin, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = io.WriteString(peer, "some\n")
	require.NoError(t, err)

	cmd := command(t, "--log", "json", "--", "sh", "-c", "trap 'exit 0' TERM; read line; echo $line; cat; echo whole")
	cmd.Stdin = stdin
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, stdin.Close())
	_, err = io.ReadFull(stdout, make([]byte, len("some\n")))
	require.NoError(t, err)
	require.NoError(t, peer.(*net.TCPConn).SetLinger(0))
	require.NoError(t, peer.Close())
	rest := testkit.Must(io.ReadAll(stdout))(t)
	require.Error(t, cmd.Wait())
	assert.Equal(t, 125, cmd.ProcessState.ExitCode())
	assert.Empty(t, string(rest))
	assert.Contains(t, stderr.String(), `"category":"fault","stop":"final","exit_code":125,"name":"sh -c `)
	assert.Contains(t, stderr.String(), "\nretry: standard input cannot be read to its end: read /dev/stdin: connection reset by peer; ")
}

// TestStdinThatIsHandedOver: what cannot be read again is the command's own, errors too.
func TestStdinThatIsHandedOver(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"/": 1, os.DevNull: 0} {
		f := testkit.Must(os.Open(name))(t)
		cmd := command(t, "-n", "1", "--", "cat")
		cmd.Stdin = f
		assert.Equal(t, want, finish(t, cmd).code, name)
		require.NoError(t, f.Close())
	}
	closed := command(t, "--", "cat")
	closed.Args = append([]string{"sh", "-c", `exec "$@" <&-`, "sh"}, append([]string{os.Args[0]}, closed.Args[1:]...)...)
	closed.Path = "/bin/sh"
	assert.Equal(t, result{0, "", ""}, finish(t, closed), "as an empty one: Go opens the null device in its place")
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
		testkit.Must(io.ReadFull(reader, p))(t)
		assert.Equal(t, want, string(p))
	}
	_ = in.CloseWithError(io.ErrUnexpectedEOF)
	_, err := reader.Read(p)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	again, err := io.ReadAll(s.Reader())
	assert.Equal(t, "ab", string(again))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

package retryredis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryredis"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// hangUp makes the server close the connection instead of an answer.
const hangUp = ""

// serve is a server that speaks the protocol of Redis as far as it is needed here: it
// answers the commands that are not about the connection with the replies, the last of
// which repeats, and counts them.
func serve(t *testing.T, replies ...string) (address string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	return answer(t, func(command string) string {
		if strings.HasPrefix(command, "HELLO") || strings.HasPrefix(command, "CLIENT") {
			return "-ERR unknown command\r\n"
		}
		return replies[min(int(calls.Add(1)), len(replies))-1]
	}), calls
}

// answer is a server that answers commands, which it gets in upper case.
func answer(t *testing.T, reply func(command string) string) (address string) {
	t.Helper()
	return provoke.Serve(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for command, err := read(in); err == nil; command, err = read(in) {
			text := reply(command)
			if text == hangUp {
				return
			}
			_, _ = io.WriteString(conn, text)
		}
	}).Addr
}

// read reads a command.
func read(in *bufio.Reader) (command string, err error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return "", err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return "", err
		}
		words[i] = strings.ToUpper(string(word[:size]))
	}
	return strings.Join(words, " "), nil
}

func client(t *testing.T, address string, idempotent func(redis.Cmder) bool) (*redis.Client, *retrytest.Recorder) {
	t.Helper()
	r := &retrytest.Recorder{}
	c := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(&retryredis.Hook{Policy: &retry.Policy{Observer: r.Observer(), Clock: &retrytest.Clock{}}, Idempotent: idempotent})
	return c, r
}

func reads(cmd redis.Cmder) bool { return cmd.Name() == "get" }

const ok = "$3\r\njob\r\n"

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		replies []string
		want    [2]int // calls of GET, which is idempotent, and of GETDEL
		err     bool
	}{
		{"ok", []string{ok}, [2]int{1, 1}, false},
		{"nil", []string{"$-1\r\n"}, [2]int{1, 1}, true},
		{"loading", []string{"-LOADING wait\r\n", "-LOADING wait\r\n", ok}, [2]int{3, 3}, false},
		{"readonly", []string{"-READONLY replica\r\n", ok}, [2]int{2, 2}, false},
		{"out of memory", []string{"-OOM no\r\n", ok}, [2]int{2, 2}, false},
		{"clients", []string{"-ERR max number of clients reached\r\n", ok}, [2]int{2, 2}, false},
		{"wrong", []string{"-WRONGTYPE no\r\n", ok}, [2]int{1, 1}, true},
		{"error", []string{"-ERR no\r\n", ok}, [2]int{1, 1}, true},
		{"exhausted", []string{"-BUSY script\r\n"}, [2]int{3, 3}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i, command := range []func(*redis.Client) *redis.StringCmd{
				func(c *redis.Client) *redis.StringCmd { return c.Get(t.Context(), "k") },
				func(c *redis.Client) *redis.StringCmd { return c.GetDel(t.Context(), "k") },
			} {
				address, calls := serve(t, tt.replies...)
				c, recorder := client(t, address, reads)
				value, err := command(c).Result()
				assert.EqualValues(t, tt.want[i], calls.Load(), recorder.Timeline())
				assert.Equal(t, tt.err, err != nil, err)
				if err == nil {
					assert.Equal(t, "job", value)
				}
			}
		})
	}
	t.Run("connection lost", func(t *testing.T) {
		t.Parallel()
		address, calls := serve(t, hangUp, ok)
		c, _ := client(t, address, reads)
		require.NoError(t, c.Get(t.Context(), "k").Err())
		assert.EqualValues(t, 2, calls.Load())
		address, calls = serve(t, hangUp, ok)
		c, _ = client(t, address, reads)
		require.ErrorIs(t, c.GetDel(t.Context(), "k").Err(), retry.StopMaybeApplied)
		assert.EqualValues(t, 1, calls.Load())
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		c, recorder := client(t, "127.0.0.1:1", nil)
		require.ErrorIs(t, c.Incr(t.Context(), "k").Err(), retry.StopAttempts)
		assert.Len(t, recorder.Waits(), 2)
	})
	t.Run("NoRetry", func(t *testing.T) {
		t.Parallel()
		address, calls := serve(t, "-LOADING wait\r\n")
		c, _ := client(t, address, func(redis.Cmder) bool { return true })
		cmd := noRetry{redis.NewStatusCmd(t.Context(), "get", "k")}
		require.Error(t, c.Process(t.Context(), cmd))
		assert.EqualValues(t, 1, calls.Load())
	})
}

type noRetry struct{ *redis.StatusCmd }

func (noRetry) NoRetry() bool { return true }

func TestPipelines(t *testing.T) {
	t.Parallel()
	get := func(c *redis.Client) ([]redis.Cmder, error) {
		return c.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			p.Get(context.Background(), "a")
			p.Get(context.Background(), "b")
			return nil
		})
	}
	increment := func(c *redis.Client) ([]redis.Cmder, error) {
		return c.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			p.Get(context.Background(), "a")
			p.Incr(context.Background(), "b")
			return nil
		})
	}
	address, calls := serve(t, ok, "-LOADING wait\r\n", ok)
	c, _ := client(t, address, reads)
	cmds, err := get(c)
	require.NoError(t, err)
	assert.EqualValues(t, 4, calls.Load())
	for _, cmd := range cmds {
		assert.NoError(t, cmd.Err())
		assert.Equal(t, "job", cmd.(*redis.StringCmd).Val())
	}

	address, calls = serve(t, "-LOADING wait\r\n")
	c, _ = client(t, address, reads)
	_, err = increment(c)
	require.ErrorIs(t, err, retry.StopMaybeApplied)
	assert.EqualValues(t, 2, calls.Load())

	c, recorder := client(t, "127.0.0.1:1", reads)
	cmds, err = increment(c)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Len(t, recorder.Waits(), 2)
	for _, cmd := range cmds {
		assert.Error(t, cmd.Err())
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pipe := c.Pipeline()
	first := pipe.Get(ctx, "a")
	_, err = pipe.Exec(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, first.Err(), context.Canceled)
}

// TestRetriesOfTheClient counts: those of go-redis multiply where they are not off.
func TestRetriesOfTheClient(t *testing.T) {
	t.Parallel()
	for retries, want := range map[int]int32{-1: 3, 2: 9} {
		address, calls := serve(t, "-LOADING wait\r\n")
		c := redis.NewClient(&redis.Options{Addr: address, MaxRetries: retries, MinRetryBackoff: -1, MaxRetryBackoff: -1})
		c.AddHook(&retryredis.Hook{Policy: &retry.Policy{Backoff: retry.Constant(0)}})
		require.Error(t, c.Get(t.Context(), "k").Err())
		assert.Equal(t, want, calls.Load())
		require.NoError(t, c.Close())
	}
}

// TestPool has a client whose connections are all in use.
func TestPool(t *testing.T) {
	t.Parallel()
	v := retryredis.Classify(fmt.Errorf("get: %w", redis.ErrPoolTimeout))
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "redis_pool_timeout"}, v)
	assert.Zero(t, retryredis.Classify(errors.New("other")))
}

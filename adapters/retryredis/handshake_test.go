package retryredis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryredis"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// server returns the address of a real server, and a key that no other test uses.
func server(t *testing.T) (address, key string, admin *redis.Client) {
	t.Helper()
	testkit.Needs(t, "Redis")
	if address = os.Getenv("RETRY_TEST_REDIS"); address == "" {
		address = "127.0.0.1:6379"
	}
	admin = redis.NewClient(&redis.Options{Addr: address})
	key = fmt.Sprintf("retryredis:%x", rand.Uint64())
	require.NoError(t, admin.Ping(t.Context()).Err(), "Redis does not answer")
	t.Cleanup(func() {
		_ = admin.Del(context.Background(), key)
		_ = admin.Close()
	})
	return address, key, admin
}

// proxy is between a client and a server. It resets the first connections on which the
// client writes a word.
type proxy struct {
	net.Listener

	server   string
	word     string
	answered bool // the server gets it, and its answer is lost
	most     int32

	resets atomic.Int32
}

// listen starts a proxy.
func (p *proxy) listen(t *testing.T, network string, config *tls.Config) *proxy {
	t.Helper()
	where := "127.0.0.1:0"
	if network == "unix" {
		where = filepath.Join(t.TempDir(), "redis")
	}
	listener := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), network, where))(t)
	if p.Listener = listener; config != nil {
		p.Listener = tls.NewListener(listener, config)
	}
	t.Cleanup(func() { _ = p.Close() })
	go func() {
		for {
			client, err := p.Accept()
			if err != nil {
				return
			}
			go p.connection(client)
		}
	}()
	return p
}

func (p *proxy) connection(client net.Conn) {
	defer reset(client)
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var lost atomic.Bool
	go func() {
		answer := make([]byte, 1<<16)
		for {
			n, err := server.Read(answer)
			if err != nil || lost.Load() {
				reset(client)
				return
			}
			_, _ = client.Write(answer[:n])
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if p.word != "" && strings.Contains(strings.ToLower(string(buffer[:n])), p.word) && p.resets.Add(1) <= p.most {
			if !p.answered {
				return
			}
			lost.Store(true)
		}
		_, _ = server.Write(buffer[:n])
	}
}

// reset ends a connection with an RST where that is possible.
func reset(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// TestHandshake resets connections at every step of a real handshake, and then those that
// bring the command. The counter of the server is the proof.
func TestHandshake(t *testing.T) {
	t.Parallel()
	address, key, admin := server(t)
	user := strings.ReplaceAll(key, ":", "-")
	require.NoError(t, admin.ACLSetUser(t.Context(), user, "on", ">secret", "~*", "&*", "+@all").Err())
	t.Cleanup(func() { _ = admin.ACLDelUser(context.Background(), user) })
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()

	for _, network := range []string{"tcp", "unix", "tls"} {
		for _, word := range []string{"hello", "select", "maint_notifications", "setinfo", "incr"} {
			for n := range 4 {
				answered, pipelined := n&1 != 0, n&2 != 0
				opts := &redis.Options{
					Network: network, MaxRetries: -1, DialerRetries: 1,
					Username: user, Password: "secret", ClientName: "retryredis", DB: 1,
				}
				p := &proxy{server: address, word: word, answered: answered, most: 2}
				if network == "tls" {
					opts.Network, opts.TLSConfig = "tcp", &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate of a test
					p.listen(t, "tcp", certificate.TLS)
				} else {
					p.listen(t, network, nil)
				}
				opts.Addr = p.Addr().String()
				c, recorder := hooked(t, redis.NewClient(opts))
				err := send(c, pipelined, func(c redis.Cmdable) error { return c.Incr(t.Context(), key).Err() })
				applied, _ := c.Get(t.Context(), key).Int()
				name := fmt.Sprintf("%s, %s, answered %v, pipelined %v: %s", network, word, answered, pipelined, recorder.Timeline())
				if word == "incr" {
					require.ErrorIs(t, err, retry.StopMaybeApplied, name)
					assert.Equal(t, map[bool]int{false: 0, true: 1}[answered], applied, name)
				} else {
					require.NoError(t, err, name)
					assert.Equal(t, 1, applied, name)
					assert.Len(t, recorder.Waits(), map[bool]int{false: 2, true: 1}[pipelined], name)
				}
				_ = c.Del(t.Context(), key)
			}
		}
	}
}

// send sends a command, alone or in a pipeline.
func send(c *redis.Client, pipelined bool, command func(redis.Cmdable) error) error {
	if !pipelined {
		return command(c)
	}
	_, err := c.Pipelined(context.Background(), func(p redis.Pipeliner) error { return command(p) })
	return err
}

// hooked gives a client a Hook under which no command may be repeated.
func hooked(t *testing.T, c *redis.Client) (*redis.Client, *retrytest.Recorder) {
	t.Helper()
	r := &retrytest.Recorder{}
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(&retryredis.Hook{Policy: &retry.Policy{Observer: r.Observer(), Clock: &retrytest.Clock{}, MaxAttempts: 4}})
	return c, r
}

// TestOneEvent has new connections to a real server: the Observer is told of what the user
// has asked for, though this server does not know each command of the handshake.
func TestOneEvent(t *testing.T) {
	t.Parallel()
	address, key, _ := server(t)
	c, recorder := hooked(t, redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1}))
	require.NoError(t, c.Incr(t.Context(), key).Err())
	testkit.Must(c.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Incr(t.Context(), key).Err() }))(t)
	subscription := c.Subscribe(t.Context(), key)
	testkit.Must(subscription.Receive(t.Context()))(t)
	require.NoError(t, subscription.Close())
	require.Len(t, recorder.Events(), 2, recorder.Timeline())
	for _, e := range recorder.Events() {
		assert.Equal(t, retry.Succeeded, e.Kind)
	}
}

// TestFull has a server that takes no more connections at first: it says so at once, and
// hangs up.
func TestFull(t *testing.T) {
	t.Parallel()
	address, calls := serve(t, ok)
	for _, protocol := range []int{2, 3} {
		for _, pipelined := range []bool{false, true} {
			full := func(conn net.Conn) {
				_, _ = io.WriteString(conn, "-ERR max number of clients reached\r\n")
				_, _ = conn.Read(make([]byte, 1<<16))
			}
			p := &proxy{server: address}
			s := provoke.Serve(t, full, full, p.connection)
			before := calls.Load()
			c, recorder := hooked(t, redis.NewClient(&redis.Options{
				Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, Protocol: protocol, DisableIdentity: true,
			}))
			require.NoError(t, send(c, pipelined, func(c redis.Cmdable) error { return c.GetDel(t.Context(), "k").Err() }), recorder.Timeline())
			assert.EqualValues(t, 1, calls.Load()-before)
			assert.Len(t, recorder.Waits(), map[bool]int{false: 2, true: 1}[pipelined], "a pipeline tries both of the client's pools")
			e := recorder.Events()[0]
			assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "redis_max_clients"}, e.Verdict)
			assert.True(t, redis.IsMaxClientsError(e.Err))
		}
	}
}

// TestSentinel has a failover client whose sentinel hangs up at first, does not know the
// master then, and at last names a real server.
func TestSentinel(t *testing.T) {
	t.Parallel()
	address, key, _ := server(t)
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	master := fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
	var calls atomic.Int32
	sentinel := answer(t, func(command string) string {
		switch {
		case calls.Add(1) <= 2:
			return hangUp
		case strings.HasPrefix(command, "SENTINEL GET-MASTER"):
			return master
		case strings.HasPrefix(command, "SENTINEL"):
			return "*0\r\n"
		case strings.HasPrefix(command, "SUBSCRIBE"):
			return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
		}
		return "-ERR unknown command\r\n"
	})
	c, recorder := hooked(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel}, MaxRetries: -1, DialerRetries: 1,
	}))
	value, err := c.Incr(t.Context(), key).Result()
	require.NoError(t, err, recorder.Timeline())
	assert.EqualValues(t, 1, value)
	assert.NotEmpty(t, recorder.Waits())

	sentinel = answer(t, func(string) string { return "$-1\r\n" }) // it does not know the master
	c, recorder = hooked(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel}, MaxRetries: -1, DialerRetries: 1,
	}))
	require.Error(t, c.Get(t.Context(), key).Err())
	assert.Equal(t, retry.GaveUp, recorder.Events()[0].Kind, "that is not the Nil of a key")
}

// cluster is a cluster client of one node, with a Hook for the whole and for the node.
func cluster(t *testing.T, address string) (*redis.ClusterClient, *retrytest.Recorder) {
	t.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: address}}}}, nil
		},
		DialerRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1, ClientName: "retryredis",
	})
	t.Cleanup(func() { _ = c.Close() })
	r := &retrytest.Recorder{}
	hook := &retryredis.Hook{Policy: &retry.Policy{Observer: r.Observer(), Clock: &retrytest.Clock{}, MaxAttempts: 4}}
	c.AddHook(hook)
	c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	return c, r
}

// TestCluster is TestHandshake for a cluster client, which repeats what it believes to be
// lost, unless the Hook of its nodes keeps it from that.
func TestCluster(t *testing.T) {
	t.Parallel()
	address, key, admin := server(t)
	for _, word := range []string{"hello", "setname", "maint_notifications", "setinfo", "incr"} {
		for _, answered := range []bool{false, true} {
			p := (&proxy{server: address, word: word, answered: answered, most: 9}).listen(t, "tcp", nil)
			c, recorder := cluster(t, p.Addr().String())
			err := c.Incr(t.Context(), key).Err()
			applied, _ := admin.Get(t.Context(), key).Int()
			name := fmt.Sprintf("%s, answered %v: %s", word, answered, recorder.Timeline())
			if word == "incr" {
				require.ErrorIs(t, err, retry.StopMaybeApplied, name)
				assert.Equal(t, map[bool]int{false: 0, true: 1}[answered], applied, name)
				assert.EqualValues(t, 1, p.resets.Load(), name)
			} else {
				require.NoError(t, err, name)
				assert.Equal(t, 1, applied, name)
			}
			_ = admin.Del(t.Context(), key)
		}
	}
	c, recorder := cluster(t, "127.0.0.1:1")
	require.ErrorIs(t, c.Incr(t.Context(), key).Err(), retry.StopAttempts)
	assert.Len(t, recorder.Waits(), 3, "the nodes have no policy of their own")
}

// TestClusterOwn has the Hook at the nodes only: what the cluster client asks a seed that
// is down is not an operation of the user.
func TestClusterOwn(t *testing.T) {
	t.Parallel()
	recorder := &retrytest.Recorder{}
	seed, _ := serve(t, hangUp)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{seed}, DialerRetries: 1, MaxRedirects: 1})
	defer func() { _ = c.Close() }()
	c.OnNewNode(func(node *redis.Client) {
		node.AddHook(&retryredis.Hook{Policy: &retry.Policy{Observer: recorder.Observer(), Clock: &retrytest.Clock{}}})
	})
	require.Error(t, c.Get(t.Context(), "k").Err())
	assert.Empty(t, recorder.Events())
}

// TestTimeoutBeforehand has an attempt whose time is over during the handshake.
func TestTimeoutBeforehand(t *testing.T) {
	t.Parallel()
	r := &retrytest.Recorder{}
	c := redis.NewClient(&redis.Options{Addr: provoke.Serve(t, provoke.Ignore).Addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }()
	c.AddHook(&retryredis.Hook{Policy: &retry.Policy{Observer: r.Observer(), AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0)}})
	require.ErrorIs(t, c.Incr(t.Context(), "k").Err(), retry.StopAttempts)
	assert.Len(t, r.Events(), 3, r.Timeline())
}

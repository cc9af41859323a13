package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// proxy is the way to a server, which may be away: it refuses and resets connections, or
// takes what it is sent and says nothing.
type proxy struct {
	away, silent atomic.Bool
	mu           sync.Mutex
	open         map[net.Conn]bool
}

// between returns the DSN of a database by way of a proxy.
func between(t *testing.T, dsn string) (string, *proxy) {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	host := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		p.reset()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", host)
			if err != nil || p.away.Load() {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.open[client], p.open[server] = true, true
			p.mu.Unlock()
			go p.pass(client, server)
			go p.pass(server, client)
		}
	}()
	u.Host = listener.Addr().String()
	return u.String(), p
}

// pass passes on what one says to the other, if the proxy is not silent.
func (p *proxy) pass(from, to net.Conn) {
	defer func() { _ = from.Close() }()
	defer func() { _ = to.Close() }()
	for buffer := make([]byte, 1<<16); ; {
		n, err := from.Read(buffer)
		if err == nil && !p.silent.Load() {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	clear(p.open)
}

// PostgreSQL goes away while 200 tasks start, are refused, report and time out. Nothing is
// lost: each attempt is made once, and no task fails or is retried for the outage, not even
// one whose timeout is shorter. RETRY_TEST_OUTAGE=60s has it last longer.
//
//nolint:paralleltest // in the time of others, it would measure them
func TestOutage(t *testing.T) {
	outages := map[string]time.Duration{"refuses": 4 * time.Second, "silent": 7 * time.Second}
	if long, err := time.ParseDuration(os.Getenv("RETRY_TEST_OUTAGE")); err == nil {
		outages = map[string]time.Duration{"refuses": long, "silent": long}
	}
	for how, d := range outages {
		t.Run(how, func(t *testing.T) { outage(t, how == "silent", d) })
	}
}

const (
	outageTasks   = 200
	outageTimeout = 3 // seconds
)

//nolint:thelper // it is the test
func outage(t *testing.T, silent bool, d time.Duration) {
	direct := dbtest.New(t, retrytable.PostgreSQL)
	dsn, p := between(t, direct.DSN)
	db, err := shared.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	c, err := readConfig(func(string) string { return "" })
	require.NoError(t, err)
	c.lease = max(20*time.Second, 2*d) // for one claim whose answer is lost
	s := newService(db, c, slog.New(slog.DiscardHandler))
	require.NoError(t, s.db.Migrate(t.Context(), io.Discard, s.schema(), false))
	api := httptest.NewServer(s.handler())
	defer api.Close()

	var mu sync.Mutex
	calls := map[string]int{} // by their keys
	begun := make(chan bool, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := strings.Cut(r.Header.Get("Idempotency-Key"), ":")
		var told struct{ Attempt int }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&told))
		first := told.Attempt == 0
		mu.Lock()
		calls[r.Header.Get("Idempotency-Key")]++
		if len(calls) == outageTasks/4 {
			begun <- true
		}
		mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		if first && r.URL.Path == "/refused" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if first && r.URL.Path == "/silent" {
			return
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			body := `{"status": "Success"}`
			if first && r.URL.Path == "/fails" {
				body = explicitFailure
			}
			// Refused, a reporter tries again; a conflict says that a report was stored.
			err := request(context.WithoutCancel(r.Context()), http.MethodPatch, api.URL+"/task/"+id, body)
			for err != nil && !strings.Contains(err.Error(), "409") {
				time.Sleep(time.Second)
				err = request(context.WithoutCancel(r.Context()), http.MethodPatch, api.URL+"/task/"+id, body)
			}
		}()
	}))
	defer hook.Close()

	kinds := []string{"works", "refused", "fails", "silent"}
	batch := make([]string, outageTasks)
	for i := range batch {
		kind := kinds[i%len(kinds)]
		retries := `, "retry": {"max_retries": 1, "initial_delay_secs": 1}`
		if kind == "works" {
			retries = ""
		}
		batch[i] = fmt.Sprintf(`{"id": "%d", "name": "%s", "kind": "x", "timeout": %d%s,
			"on_start": {"kind": "Webhook", "params": {"url": "%s/%[2]s", "verb": "Post"}}}`, i, kind, outageTimeout, retries, hook.URL)
	}
	require.NoError(t, request(t.Context(), http.MethodPost, api.URL+"/task", "["+strings.Join(batch, ",")+"]"))
	stop := (&env{service: s, t: t}).working()
	defer stop()

	<-begun
	p.silent.Store(silent)
	p.away.Store(!silent)
	if !silent {
		p.reset()
	}
	time.Sleep(d)
	p.silent.Store(false)
	p.away.Store(false)
	p.reset()

	require.Eventually(t, func() bool {
		return dbtest.Get[int](t, direct, "SELECT count(*) FROM task WHERE status <> 'success'") == 0
	}, 2*time.Minute+c.lease, 200*time.Millisecond)
	lostClaims := 0
	all, err := s.list(t.Context(), nil)
	require.NoError(t, err)
	for _, task := range all {
		want := 1
		if task.Name == "works" {
			want = 0
		}
		if task.Attempt > want {
			lostClaims++
			t.Logf("%+v", task)
		}
		assert.GreaterOrEqual(t, task.Attempt, want, "%+v", task)
	}
	assert.LessOrEqual(t, lostClaims, 1, "claims take turns")
	mu.Lock()
	defer mu.Unlock()
	for key, n := range calls {
		assert.Equal(t, 1, n, key)
	}
}

// Whoever asks while the database is away is told to come back, also when our own patience is over.
func TestAnswerWhenPatienceIsOver(t *testing.T) {
	t.Parallel()
	s := newService(&shared.DB{Dialect: retrytable.SQLite}, config{}, slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	s.answer(w, httptest.NewRequest(http.MethodGet, "/task", nil), func(*http.Request) (any, error) {
		return nil, &retry.Error{Stop: retry.StopElapsed, Attempts: 9, Err: driver.ErrBadConn}
	})
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
}

// A loop says that it fails once, and once that it goes on.
func TestLoopLogs(t *testing.T) {
	t.Parallel()
	var log dbtest.Output
	s := newService(&shared.DB{Dialect: retrytable.SQLite}, config{}, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, stop := context.WithCancel(t.Context())
	steps := 0
	_ = s.loop(ctx, "retry", time.Microsecond, func(context.Context) (bool, error) {
		switch steps++; {
		case steps == 20:
			stop()
			return false, ctx.Err()
		case steps%10 < 5:
			return true, driver.ErrBadConn
		default:
			return false, nil
		}
	})
	text := regexp.MustCompile("time=[^ ]+ ").ReplaceAllString(log.String(), "")
	const fails, goesOn = "level=ERROR msg=\"retry loop fails\" error=\"driver: bad connection\"\n", "level=INFO msg=\"retry loop goes on\"\n"
	assert.Equal(t, fails+goesOn+fails+goesOn, text)
}

const (
	crashTasks   = 200
	crashRetries = 6
)

// crashConfig is the config of workers in a hurry.
func crashConfig() config {
	c, err := readConfig(func(string) string { return "" })
	c.lease, c.hookTime = 600*time.Millisecond, 300*time.Millisecond
	c.interval, c.poll = 30*time.Millisecond, 10*time.Millisecond
	if err != nil {
		panic(err)
	}
	return c
}

// poison is a connection that kills its process by what it is to send.
type poison struct{}

func (poison) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.URL.Path, "/poison/") {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// crashWorker is what [dbtest.Kill] starts: the loops, without the API.
func crashWorker(ctx context.Context, db *shared.DB) error {
	s := newService(db, crashConfig(), slog.New(slog.DiscardHandler))
	s.client.Transport = poison{}
	return s.work(ctx)
}

// Workers are killed every 30 to 130 ms, by others or by their task, while 200
// tasks run. Each task ends, none is begun more often than its limit, and those
// that kill their worker fail.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		t.Helper()
		s := newService(db, crashConfig(), slog.New(slog.DiscardHandler))
		require.NoError(t, s.db.Migrate(t.Context(), io.Discard, s.schema(), false))
		var mu sync.Mutex
		starts, keys := map[string]int{}, map[string]int{}
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			id, _, _ := strings.Cut(key, ":")
			mu.Lock()
			starts[id]++
			keys[key]++
			n := len(starts)
			first := starts[id] == 1
			mu.Unlock()
			if first && n%5 == 0 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			if first && n%7 == 0 {
				return // and not heard of again
			}
			_, err := s.apply(r.Context(), id, patch{Status: success})
			var p *problem
			if !errors.As(err, &p) && r.Context().Err() == nil {
				assert.NoError(t, err)
			}
		}))
		defer hook.Close()

		batch := make([]newTask, crashTasks)
		for i := range batch {
			path := "/work/"
			if i%40 == 39 {
				path = "/poison/"
			}
			start := &action{Kind: "Webhook"}
			start.Params.URL, start.Params.Verb = hook.URL+path+strconv.Itoa(i), "Post"
			batch[i] = newTask{
				ID: strconv.Itoa(i), Name: path, Kind: "crash", Timeout: 1, OnStart: start,
				Retry: json.RawMessage(fmt.Sprintf(`{"max_retries": %d, "initial_delay_secs": 1, "backoff_multiplier": 1, "max_delay_secs": 1}`, crashRetries)),
			}
		}
		_, err := s.create(t.Context(), batch)
		require.NoError(t, err)
		dbtest.Kill(t, db, 2, 25, func() bool {
			busy := dbtest.Get[bool](t, db, `SELECT EXISTS (SELECT 1 FROM task WHERE status IN `+alive+`) OR
				EXISTS (SELECT 1 FROM webhook_execution WHERE status IN ('ready', 'waiting', 'running'))`)
			return !busy
		})

		all, err := s.list(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, all, crashTasks, "no task is lost")
		ends := map[string]int{}
		retried := 0
		for _, task := range all {
			ends[task.Name+task.Status.String()]++
			assert.LessOrEqual(t, task.Attempt, crashRetries, "%+v", task)
			assert.LessOrEqual(t, starts[task.ID], task.Attempt+1, "%+v", task)
			if task.Status == failed {
				assert.Equal(t, crashRetries, task.Attempt, "%+v", task)
			}
			if task.Attempt > 0 {
				retried++
			}
		}
		unknown := 0
		for _, n := range keys {
			if n > 1 {
				unknown++
			}
		}
		assert.NotZero(t, unknown, "what became of a call is not known, and it has the same key")
		t.Log(ends, retried, "retried", unknown, "called again under the same key")
		assert.Equal(t, crashTasks/40, ends["/poison/Failure"])
		assert.Equal(t, crashTasks-crashTasks/40, ends["/work/Success"]+ends["/work/Failure"])
		// A slow machine has more of them meet with a kill in each attempt.
		assert.Greater(t, ends["/work/Success"], crashTasks/2)
		assert.Greater(t, retried, 60)
	})
}

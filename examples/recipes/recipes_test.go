package recipes_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/recipes"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

type tokens struct{ version, calls int }

func (t *tokens) token() string { return fmt.Sprintf("Bearer %d", t.version) }

func (t *tokens) Get(context.Context) (string, error) { return fmt.Sprint(t.version), nil }

func (t *tokens) Refused(header string) {
	if t.calls++; header == t.token() {
		t.version++
	}
}

func TestAuthorized(t *testing.T) {
	t.Parallel()
	store, wanted, failures := &tokens{}, "Bearer 1", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/down" || failures > 0:
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != wanted:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	client := recipes.Authorized(store)
	client.Transport.(*retryhttp.Transport).Policy = &retry.Policy{Backoff: retry.Constant(0)}
	for range 3 { // use up the budget of the host
		resp, err := client.Get(server.URL + "/down")
		require.NoError(t, err)
		resp.Body.Close()
	}
	post := func() *http.Response {
		resp, err := client.Post(server.URL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	resp := post()
	assert.Equal(t, 200, resp.StatusCode, retryhttp.Why(resp))
	assert.Equal(t, 1, store.calls)
	wanted = "nobody's"
	resp = post()
	assert.Equal(t, 401, resp.StatusCode)
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	assert.ErrorContains(t, retryhttp.Why(resp), "final: http_401")

	failures, wanted = 2, "Bearer 4"
	client.Transport.(*retryhttp.Transport).Budget = retryhttp.NoBudget
	get, err := client.Get(server.URL) // with the token that was refused last
	require.NoError(t, err)
	get.Body.Close()
	assert.Equal(t, 200, get.StatusCode, "a failure before the 401 is none of the token's")
	assert.Equal(t, 4, retryhttp.Attempts(get))
}

func TestUpload(t *testing.T) {
	t.Parallel()
	var stored bytes.Buffer
	fail := map[int]bool{1: true, 4: true}
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, _ := io.ReadAll(r.Body)
		if calls++; fail[calls] {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		assert.Equal(t, fmt.Sprintf("bytes %d-%d/10", stored.Len(), stored.Len()+len(part)-1), r.Header.Get("Content-Range"))
		stored.Write(part)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{Backoff: retry.Constant(0)}}}
	end, err := recipes.Upload(t.Context(), client, server.URL, strings.NewReader("0123456789"), 0, 10, 4)
	require.NoError(t, err)
	assert.EqualValues(t, 10, end)
	assert.Equal(t, "0123456789", stored.String())
}

// served is a transport that answers by the host.
type served func(host string) (status int, retryAfter string)

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	status, retryAfter := s(r.URL.Host)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Retry-After": {retryAfter}}, Body: http.NoBody, Request: r,
		ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		client := &http.Client{Transport: served(func(host string) (int, string) {
			calls[host]++
			switch {
			case host == "limited" && calls[host] == 1, host == "stopped":
				return http.StatusTooManyRequests, "600"
			case host == "gone":
				return http.StatusGone, ""
			}
			return http.StatusOK, ""
		})}
		quotas, letters := &retryquota.Keys[string]{MaxHold: time.Hour}, map[string]error{}
		deliver := func(ctx context.Context, id, url string) error {
			return recipes.Deliver(ctx, client, quotas, recipes.Hook{ID: id, Customer: url, URL: url}, func(h recipes.Hook, err error) error {
				letters[h.ID] = err
				return nil
			})
		}
		began := time.Now()
		limited := make(chan error, 1)
		go func() { limited <- deliver(t.Context(), "1", "http://limited") }()
		synctest.Wait()
		require.NoError(t, deliver(t.Context(), "2", "http://other")) // is not held by the limit of another customer
		assert.Zero(t, time.Since(began))
		require.NoError(t, deliver(t.Context(), "3", "http://limited")) // is, without a request
		assert.GreaterOrEqual(t, time.Since(began), 600*time.Second)
		require.NoError(t, <-limited)
		assert.Equal(t, 3, calls["limited"])

		require.NoError(t, deliver(t.Context(), "4", "http://gone"))
		require.NoError(t, deliver(t.Context(), "5", "://"))
		stopping, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.ErrorIs(t, deliver(stopping, "6", "http://stopped"), retry.StopDeadline)
		<-stopping.Done()
		require.Error(t, deliver(stopping, "7", "http://stopped"))
		assert.ErrorContains(t, letters["4"], "410")
		assert.Contains(t, letters, "5")
		assert.Len(t, letters, 2, "the program stops: the hooks come again")
	})
}

func TestSaga(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var did []string
		step := func(name string, failures int) recipes.Step {
			return recipes.Step{
				Do: func(context.Context) error {
					if did = append(did, name); name == "ship" {
						cancel()
						return retry.MarkFinal(errors.New("no ship"))
					}
					return nil
				},
				Undo: func(ctx context.Context) error {
					did = append(did, "un"+name)
					if failures--; failures >= 0 {
						return errors.New("later")
					}
					return ctx.Err()
				},
			}
		}
		err := recipes.Saga(ctx, &retry.Policy{}, step("book", 5), step("pay", 0), step("ship", 0), step("tell", 0))
		assert.ErrorContains(t, err, "no ship")
		assert.ErrorIs(t, err, retry.StopCanceled)
		assert.Equal(t, "book pay ship unship unpay"+strings.Repeat(" unbook", 6), strings.Join(did, " "))
	})
}

// TestMail: 450 is greylisting, and 550 is an address that nobody has.
func TestMail(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]int{"450 later": 2, "550 nobody": 1} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		calls := make(chan string, 9)
		go serveMail(listener, first, calls)
		policy := &retry.Policy{Backoff: retry.Constant(0)}
		err = recipes.Mail(t.Context(), policy, listener.Addr().String(), nil, "a@example.com", []string{"b@example.com"}, []byte("hi"))
		assert.Equal(t, want == 2, err == nil, err)
		assert.Len(t, calls, want)
		_ = listener.Close()
	}
}

func serveMail(listener net.Listener, answer string, calls chan<- string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(conn, "220 hi\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			reply := "250 ok"
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "RCPT"):
				calls <- line
				reply, answer = answer, "250 ok"
			case line == "DATA":
				reply = "354 go on"
			case line == "hi":
				continue
			case line == "QUIT":
				reply = "221 bye"
			}
			fmt.Fprint(conn, reply+"\r\n")
		}
		_ = conn.Close()
	}
}

// A host that the DNS does not have yet is waited for, unlike elsewhere.
func TestReadyWaitsForDNS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		db := sql.OpenDB(connector(func() error {
			if pings++; pings < 3 {
				return &net.DNSError{IsNotFound: true}
			}
			return nil
		}))
		defer func() { _ = db.Close() }()
		require.NoError(t, recipes.Ready(t.Context(), db))
		assert.Equal(t, 3, pings)
	})
}

// connector is a database of which only the connecting is real.
type connector func() error

func (c connector) Connect(context.Context) (driver.Conn, error) { return conn{}, c() }

func (c connector) Driver() driver.Driver { return nil }

type conn struct{ driver.Conn }

func (conn) Close() error { return nil }

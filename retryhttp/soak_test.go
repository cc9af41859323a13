package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// soakHandler answers as servers of all kinds do: it redirects to other hosts with long
// paths, sends hints in headers and bodies, fails, and now and then cuts a connection.
func soakHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	first := r.Header.Get("Attempt") == "1"
	switch {
	case n%3 == 0 && !strings.Contains(r.URL.Path, "moved"):
		long := strings.Repeat("p", 10_000)
		http.Redirect(w, r, fmt.Sprintf("http://Moved-%d.example:80/moved/%s?n=%d", n, long, n), http.StatusTemporaryRedirect)
	case !first: // it succeeds
	case n%7 == 0:
		w.Header()["Retry-After"] = []string{"0." + strings.Repeat("0", n%10_000) + "1", "2000000000,"}
		w.WriteHeader(http.StatusServiceUnavailable)
	case n%7 == 1:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = fmt.Fprintf(w, `{"retry_after":0.00%d,"x":"%s"}`, n, strings.Repeat("x", n%5000))
	case n%7 == 2:
		panic(http.ErrAbortHandler)
	case n%7 == 3:
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, "fine")
}

// A Transport that runs for long holds on to no more than one that has just begun. The test
// takes a second, or as long as RETRY_TEST_SOAK says: 10m, for example.
//
//nolint:paralleltest // It measures.
func TestSoak(t *testing.T) {
	s := newServer(t, soakHandler)
	s.Config.ErrorLog = nil
	s.Start()
	var base *http.Transport
	transport := &retryhttp.Transport{
		Base:      roundTripper(func(req *http.Request) (*http.Response, error) { return base.RoundTrip(req) }),
		BodyHints: true, Cooldown: time.Millisecond, AttemptHeader: "Attempt",
		Policy: &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Microsecond)},
	}
	client := &http.Client{Transport: transport}
	// net/http remembers each host whose connections were never idle, and the header that
	// named it. So a round has an http.Transport of its own.
	sent := 0
	round := func() {
		base = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // every name is this server
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
			},
			MaxIdleConns: 20,
		}
		sent = soak(t, client, sent)
		base.CloseIdleConnections()
	}
	for range 3 { // it meets more hosts than it remembers
		round()
	}
	testkit.Soak(t, round, func() bool {
		base = nil
		return s.open.Load() == 0
	})
	runtime.KeepAlive(transport)
}

// soak sends requests to hosts that were not there before. With those of the redirects, they
// are 512: the Transport remembers as many after one round as after another.
func soak(t *testing.T, client *http.Client, sent int) int {
	t.Helper()
	const all, atOnce = 384, 8
	for end := sent + all; sent < end; sent += atOnce {
		var wg sync.WaitGroup
		for n := sent; n < sent+atOnce; n++ {
			wg.Go(func() { soakOne(t, client, n) })
		}
		wg.Wait()
	}
	return sent
}

func soakOne(t *testing.T, client *http.Client, n int) {
	t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if n%2 == 0 {
		method, body = http.MethodPost, strings.NewReader("body")
	}
	req := request(t, method, fmt.Sprintf("http://Host-%d.Example:80/?n=%d", n, n), body)
	if resp, err := client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

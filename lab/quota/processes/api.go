package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// service is how long the API takes on average for a request that it serves, and way how long
// for one that it refuses.
const (
	service = 50 * time.Millisecond
	way     = 2 * time.Millisecond
)

// api takes so many requests in a window of time, and refuses the others with 429 and a
// Retry-After. The first window begins with the first request.
type api struct {
	limit  int
	window time.Duration

	mu              sync.Mutex
	first           time.Time
	began           time.Time // the window
	used            int
	served, refused int
}

// serve serves on loopback until stop is called.
func (a *api) serve() (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, IdleTimeout: time.Hour}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), server.Close, nil
}

// ServeHTTP implements [http.Handler].
func (a *api) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	left, ok := a.ask(time.Now())
	if !ok {
		time.Sleep(way)
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(left.Seconds()))))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(service/2 + rand.N(service))
}

// ask counts a request, and reports whether it is served. If not, the window is left so long.
func (a *api) ask(now time.Time) (left time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() {
		a.first, a.began = now, now
	}
	if passed := now.Sub(a.began); passed >= a.window {
		a.began, a.used = a.began.Add(passed.Truncate(a.window)), 0
	}
	if a.used == a.limit {
		a.refused++
		return a.began.Add(a.window).Sub(now), false
	}
	a.used++
	a.served++
	return 0, true
}

// call is the request of a job. A refusal is an error that the policy knows.
func call(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	v := retryhttp.ClassifyResponse(resp, time.Now())
	if v == (retry.Verdict{}) {
		return nil
	}
	return retry.Mark(errors.New(resp.Status), v)
}

// ideal is how long the jobs take if somebody knows the limit.
func (a *api) ideal(jobs int) time.Duration {
	return time.Duration((jobs-1)/a.limit)*a.window + service
}

// String names the limit.
func (a *api) String() string { return fmt.Sprintf("%d_in_%v", a.limit, a.window) }

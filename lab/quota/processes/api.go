package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// service is how long the API takes on average for a request that it serves, and way how long
// for one that it refuses.
const (
	service = 50 * time.Millisecond
	way     = 2 * time.Millisecond
)

// kinds are the servers that there are.
var kinds = map[string]kind{
	"window":        {hint: scene.Seconds, status: http.StatusTooManyRequests},
	"503":           {hint: scene.Seconds, status: http.StatusServiceUnavailable},
	"one":           {hint: scene.Seconds, status: http.StatusTooManyRequests, one: true},
	"one, in ms":    {hint: exact, status: http.StatusTooManyRequests, one: true},
	"one, and says": {hint: scene.Seconds, status: http.StatusTooManyRequests, one: true, says: true},
}

// kind is a server: it takes so many requests in a window, or one after the other at the same rate. It
// refuses the others with this status and a hint, and may say after each that nothing is left.
type kind struct {
	hint      scene.Hint
	status    int
	one, says bool
}

func exact(left time.Duration, _ *rand.Rand) time.Duration { return left }

// api is such a server with a limit. Its first window begins with the first request.
type api struct {
	kind
	limit  int
	window time.Duration

	mu      sync.Mutex
	server  scene.Server
	first   time.Time
	served  int
	refused int
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
	answer := a.ask(time.Now())
	if !answer.OK {
		time.Sleep(way)
		if answer.After%time.Second == 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(answer.After.Seconds())))
		} else {
			w.Header().Set("Retry-After-Ms", strconv.FormatFloat(float64(answer.After)/1e6, 'f', 3, 64))
		}
		w.WriteHeader(a.status)
		return
	}
	time.Sleep(service/2 + rand.N(service))
	if answer.Spent > 0 {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset-After", strconv.Itoa(int(answer.Spent.Seconds())))
	}
}

// ask counts a request.
func (a *api) ask(now time.Time) scene.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() {
		a.first = now
		a.server = scene.Window(a.limit, a.window, a.hint)(nil)
		if a.one {
			a.server = scene.Bucket(a.window/time.Duration(a.limit), 1, a.hint, a.says)(nil)
		}
	}
	answer := a.server(now.Sub(a.first), 1)
	if answer.OK {
		a.served++
	} else {
		a.refused++
	}
	return answer
}

// call is the request of a job. A refusal is an error that the policy knows, and spent, if not nil, hears that
// nothing is left after a success.
func call(ctx context.Context, client *http.Client, url string, spent func(time.Duration)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if after, ok := retryhttp.ParseUsedUp(resp.Header, time.Now()); ok && spent != nil && resp.StatusCode < http.StatusBadRequest {
		spent(after)
	}
	v := retryhttp.ClassifyResponse(resp, time.Now())
	if v == (retry.Verdict{}) {
		return nil
	}
	return retry.Mark(errors.New(resp.Status), v)
}

// ideal is how long the jobs take if somebody knows the limit.
func (a *api) ideal(jobs int) time.Duration {
	if a.one {
		return time.Duration(jobs-1)*a.window/time.Duration(a.limit) + service
	}
	return time.Duration((jobs-1)/a.limit)*a.window + service
}

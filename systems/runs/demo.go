package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// demonstrate replays requests to a server that is having a bad time, until no run
// is left.
func demonstrate(ctx context.Context, p *processor, workers int) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &troubled{}, ReadHeaderTimeout: time.Second}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()
	if err := p.migrate(ctx); err != nil {
		return err
	}
	if err := p.seed(ctx, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	if _, err := p.Claim(ctx, p.db, 1, p.categories...); err != nil { // by a processor that dies of it
		return err
	}
	for worker := p.worker(workers); ; {
		if _, err := worker.Once(ctx); err != nil {
			return err
		}
		if n, err := p.left(ctx); err != nil || n == 0 {
			return err
		}
		if err := shared.Wait(ctx, p.poll); err != nil {
			return err
		}
	}
}

// seed submits a run for each kind of trouble, a day after the other.
func (s *store) seed(ctx context.Context, url string) error {
	category := any("web")
	if len(s.categories) > 0 {
		category = s.categories[0]
	}
	for i, path := range []string{"orphaned", "flaky", "busy", "overloaded", "missing", "down", "new", "changed"} {
		expected := any("answer")
		if path == "new" {
			expected = nil
		}
		_, err := s.db.ExecContext(ctx, "INSERT INTO runs (id, category, url, expected, submitted_date) VALUES ($1, $2, $3, $4, $5)",
			path, category, url+"/"+path, expected, retrytable.Instant{Time: time.Now().AddDate(0, 0, i-9), As: s.Instants})
		if err != nil {
			return err
		}
	}
	return nil
}

// troubled is a server whose trouble is in the path of the request.
type troubled struct{ requests sync.Map }

func (s *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, again := s.requests.LoadOrStore(r.URL.Path, true)
	answer := "answer"
	switch path := r.URL.Path; {
	case path == "/down", path == "/flaky" && !again:
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == "/busy" && !again:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case path == "/overloaded" && !again:
		w.WriteHeader(http.StatusTooManyRequests)
	case path == "/missing":
		w.WriteHeader(http.StatusNotFound)
	case path == "/changed":
		answer = "another answer"
	}
	_, _ = w.Write([]byte(answer))
}

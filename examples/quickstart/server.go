package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// troubledServer recovers step by step. It observes the policy to learn when
// the client was refused.
type troubledServer struct {
	retryAfter time.Duration
	addr       string
	server     *http.Server
	requests   atomic.Int64
}

// reserve finds a port on which no server listens.
func (s *troubledServer) reserve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	return listener.Close()
}

func (s *troubledServer) url() string { return "http://" + s.addr + "/greeting" }

func (s *troubledServer) close() {
	if s.server != nil {
		_ = s.server.Close()
	}
}

// event starts the server after the first refusal.
func (s *troubledServer) event(_ context.Context, e retry.Event) {
	if e.Kind != retry.Retrying || e.Attempt != 1 {
		return
	}
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return // the port is taken, and the client sees the failure
	}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	go func() { _ = s.server.Serve(listener) }()
}

// ServeHTTP implements [http.Handler].
func (s *troubledServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	switch s.requests.Add(1) {
	case 1:
		reset(w)
	case 2:
		http.Error(w, "starting up", http.StatusServiceUnavailable)
	case 3:
		if s.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatFloat(s.retryAfter.Seconds(), 'f', -1, 64))
		}
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		_, _ = io.WriteString(w, "hello")
	}
}

// reset breaks the connection like a crash: SetLinger(0) makes Close send a
// RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(fmt.Errorf("quickstart: hijack: %w", err))
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// demoBatch has the task of section 12, whose first two attempts time out, and
// some that depend on it. URL stands for whoever does their work.
//
//go:embed demo.json
var demoBatch string

// demo posts a batch to the service, does its work, and ends when that is done.
func demo(ctx context.Context, out io.Writer, s *service, listener net.Listener, url string) error {
	began := time.Now()
	s.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch {
		case a.Key == slog.TimeKey: // in seconds of the tasks
			return slog.String("t", fmt.Sprintf("%3.0f", time.Since(began).Seconds()/s.second.Seconds()))
		case a.Key == slog.LevelKey:
			return slog.Attr{}
		case a.Value.Kind() == slog.KindDuration:
			return slog.String(a.Key, fmt.Sprintf("%gs", a.Value.Duration().Seconds()/s.second.Seconds()))
		}
		return a
	}}))
	mux := http.NewServeMux()
	mux.Handle("/", s.handler())
	mux.HandleFunc("POST /work/{name}", func(w http.ResponseWriter, r *http.Request) { s.demoWork(w, r, url) })

	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, listener, mux) }()
	err := request(ctx, http.MethodPost, url+"/task", strings.ReplaceAll(demoBatch, "URL", url+"/work"))
	for more := true; more && err == nil && ctx.Err() == nil; {
		time.Sleep(s.interval)
		more, err = s.busy(ctx)
	}
	stop()
	if serveErr := <-served; !errors.Is(serveErr, context.Canceled) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// demoWork is a webhook: it takes on the work of a task, or does not.
func (s *service) demoWork(w http.ResponseWriter, r *http.Request, url string) {
	var t struct {
		ID      string `json:"id"`
		Attempt int    `json:"attempt"`
	}
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.log.Info("webhook", "path", r.URL.Path, "attempt", t.Attempt)
	answer := `{"status": "Success"}`
	switch name := r.PathValue("name"); {
	case name == "told", name == "import" && t.Attempt < 2:
		return // and not heard of again
	case name == "index" && t.Attempt == 0:
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	case name == "publish":
		answer = `{"status": "Failure", "failure_reason": "no space left"}`
	}
	ctx := context.WithoutCancel(r.Context())
	time.AfterFunc(10*s.second, func() {
		if err := request(ctx, http.MethodPatch, url+"/task/"+t.ID, answer); err != nil {
			s.log.Error("webhook", "error", err)
		}
	})
}

// busy reports whether there is a task or a webhook left to do.
func (s *service) busy(ctx context.Context) (more bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM task WHERE status IN `+alive+`) OR
		EXISTS (SELECT 1 FROM webhook_execution WHERE status IN ('ready', 'waiting', 'running'))`).Scan(&more)
	return more, err
}

func request(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text), err)
	}
	return nil
}

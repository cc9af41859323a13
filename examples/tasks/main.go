// Tasks is a service that runs graphs of tasks by calling webhooks, and runs the
// ones that fail again. Section numbers in comments are those of README.md.
//
//	go run .                        # a demonstration
//	go run . -serve -dsn tasks.db   # the service
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
)

func main() { shared.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("tasks", flag.ContinueOnError)
	dsn := shared.DSN(flags)
	serve := shared.Serve(flags)
	address := flags.String("address", "127.0.0.1:0", "where to listen")
	second := flags.Duration("second", 0, "how long a second of the tasks lasts; 0 is 1s, and 50ms in the demonstration")
	if err := shared.Parse(flags, args); err != nil {
		return err
	}
	if err := shared.Positive(flags, "second"); err != nil {
		return err
	}
	open, pace := shared.Open, time.Second
	if !*serve {
		open, pace = shared.Temporary, 50*time.Millisecond
	}
	if *second != 0 {
		pace = *second
	}
	c, err := readConfig(os.Getenv, pace)
	if err != nil {
		return err
	}
	db, err := open(ctx, *dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	s := newService(db, c, slog.New(slog.NewTextHandler(out, nil)))
	if err := s.createTables(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Fprintf(out, "%s/dag\n", url)
	if *serve {
		return s.serve(ctx, listener, s.handler())
	}
	return demo(ctx, out, s, listener, url)
}

// serve serves the API and works until the context is done.
func (s *service) serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.work(ctx) })
	answered := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
		defer stop()
		answered <- server.Shutdown(ctx)
	})
	err := server.Serve(listener) // returns when Shutdown begins
	stop()
	wg.Wait()
	if shutErr := <-answered; shutErr != nil {
		return fmt.Errorf("shutdown: %w", errors.Join(shutErr, server.Close()))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return err
}

// work runs the loops until the context is done, and what was begun is finished.
func (s *service) work(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { s.loop(ctx, "start", s.second, s.starter(&wg)) })
	wg.Go(func() { s.loop(ctx, "timeout", s.second, s.timeouts) })
	wg.Go(func() { s.loop(ctx, "retry", s.interval, s.retries) })
	wg.Go(func() { _ = s.deliverer().Run(ctx) })
	wg.Wait()
}

// loop takes a step as long as there is something to do, and pauses otherwise.
func (s *service) loop(
	ctx context.Context, name string, interval time.Duration, step func(context.Context) (more bool, err error),
) {
	for ctx.Err() == nil {
		more, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error(name+" loop", "error", err)
		}
		if more && err == nil {
			continue
		}
		_ = shared.Wait(ctx, interval)
	}
}

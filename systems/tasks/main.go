// Tasks is a service that runs graphs of tasks by calling webhooks, and runs the
// ones that fail again. Section numbers in comments are those of README.md.
//
//	go run . demo                   # a demonstration
//	go run . migrate -dsn tasks.db  # makes the tables, or adds what yours lack
//	go run . serve -dsn tasks.db    # the service
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

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

func main() { shared.Main(program.Run) }

var program = &shared.Program{
	Name: "tasks", About: "runs graphs of tasks, and those that fail again",
	Commands: []shared.Command{
		{Name: "serve", About: "serves the API and works until interrupted", Flags: serveCommand},
		{Name: "migrate", About: "makes the tables, or adds what existing ones lack; it may be run again, while others work", Flags: migrateCommand},
		{Name: "demo", About: "plays the timeline of the specification, and more, in 8 seconds", Flags: demoCommand},
	},
}

func serveCommand(flags *flag.FlagSet) shared.Action {
	dsn, address := shared.DSN(flags), address(flags)
	return func(ctx context.Context, out io.Writer) (err error) {
		s, listener, err := open(ctx, out, *address, time.Second, func() (*shared.DB, error) { return shared.OpenExisting(ctx, *dsn) })
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.db.Close()) }()
		if err := s.ready(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
		fmt.Fprintf(out, "http://%s/dag\n", listener.Addr())
		return s.serve(ctx, listener, s.handler())
	}
}

func migrateCommand(flags *flag.FlagSet) shared.Action {
	return shared.Migration(flags, missing)
}

func demoCommand(flags *flag.FlagSet) shared.Action {
	sandbox, address := shared.Sandbox(flags), address(flags)
	second := flags.Duration("second", 50*time.Millisecond, "how long a second of the tasks lasts")
	return func(ctx context.Context, out io.Writer) (err error) {
		if err := shared.Positive(flags); err != nil {
			return err
		}
		s, listener, err := open(ctx, out, *address, *second, func() (*shared.DB, error) { return sandbox(ctx) })
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.db.Close()) }()
		if err := s.db.Migrate(ctx, io.Discard, missing, false); err != nil {
			return errors.Join(err, listener.Close())
		}
		url := "http://" + listener.Addr().String()
		fmt.Fprintf(out, "%s/dag\n", url)
		return demo(ctx, out, s, listener, url)
	}
}

func address(flags *flag.FlagSet) *string {
	return flags.String("address", "127.0.0.1:0", "where to listen; port 0 is any that is free")
}

// open opens a database for the service, and a place where it can be reached.
func open(
	ctx context.Context, out io.Writer, address string, second time.Duration, database func() (*shared.DB, error),
) (*service, net.Listener, error) {
	c, err := readConfig(os.Getenv, second)
	if err != nil {
		return nil, nil, err
	}
	db, err := database()
	if err != nil {
		return nil, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return newService(db, c, slog.New(slog.NewTextHandler(out, nil))), listener, nil
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
	wg.Go(func() { _ = s.starter().Run(ctx) })
	wg.Go(func() { _ = s.deliverer().Run(ctx) })
	wg.Go(func() { s.loop(ctx, "timeout", s.second, s.timeout) })
	wg.Go(func() { s.loop(ctx, "retry", s.interval, s.retries) })
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

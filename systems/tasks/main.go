// Tasks is a service that runs graphs of tasks by calling webhooks, and runs the
// ones that fail again. Section numbers in comments are those of README.md.
//
//	go run . migrate -dsn tasks.db  # makes the tables, or adds what yours lack
//	go run . serve -dsn tasks.db    # the service
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
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
	},
}

func serveCommand(flags *flag.FlagSet) shared.Action {
	address := flags.String("address", "127.0.0.1:0", "where to listen; port 0 is any that is free")
	hosts := flags.String("hosts", "", "the `names`, as in a,b, that clients have for the service, besides IP addresses and localhost")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		c, err := readConfig(os.Getenv)
		if err != nil {
			return shared.Usage(err)
		}
		s := newService(db, c, slog.New(slog.NewTextHandler(out, nil)))
		if err := s.ready(ctx); err != nil {
			return err
		}
		listener, err := shared.Listen(ctx, *address)
		if err != nil {
			return fmt.Errorf("-address: %w", err)
		}
		fmt.Fprintf(out, "http://%s/dag\n", listener.Addr())
		return s.serve(ctx, listener, s.handler(), strings.Fields(strings.ReplaceAll(*hosts, ",", " "))...)
	})
}

func migrateCommand(flags *flag.FlagSet) shared.Action {
	return shared.Migration(flags, func(db *shared.DB) *shared.Schema { return newService(db, config{}, slog.Default()).schema() })
}

// serve serves the API and works until the context is done.
func (s *service) serve(ctx context.Context, listener net.Listener, handler http.Handler, hosts ...string) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { s.work(ctx) })
	return shared.Serve(ctx, listener, handler, s.grace, hosts...)
}

// work runs the loops until the context is done, and what was begun is finished.
func (s *service) work(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.starter().Run(ctx) })
	wg.Go(func() { _ = s.deliverer().Run(ctx) })
	wg.Go(func() { s.loop(ctx, "timeout", s.poll, s.timeout) })
	wg.Go(func() { s.loop(ctx, "retry", s.interval, s.retries) })
	wg.Wait()
}

// loop takes a step as long as there is something to do, and pauses otherwise. It logs that it
// fails once, and once that it goes on.
func (s *service) loop(
	ctx context.Context, name string, interval time.Duration, step func(context.Context) (more bool, err error),
) {
	failing := false
	for ctx.Err() == nil {
		more, err := step(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			s.log.Error(name+" loop fails", "error", err)
		case err == nil && failing:
			s.log.Info(name + " loop goes on")
		}
		if failing = err != nil; !more || failing {
			_ = shared.Wait(ctx, interval)
		}
	}
}

// Tasks is a service that runs graphs of tasks by calling webhooks, and runs the
// ones that fail again. Section numbers in comments are those of README.md.
//
//	go run . migrate -dsn tasks.db  # makes the tables, or adds what yours lack
//	go run . serve -dsn tasks.db    # the service
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

func main() { shared.Main(program.Run) }

var program = &shared.Program{
	Name: "tasks", About: "runs graphs of tasks, and those that fail again",
	Commands: []shared.Command{
		{Name: "serve", About: "serves the API and works until interrupted", Flags: serveCommand},
		shared.Migration(func(db *shared.DB) *shared.Schema { return newService(db, config{}, slog.Default()).schema() }),
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

// serve serves the API and works until the context is done.
func (s *service) serve(ctx context.Context, listener net.Listener, handler http.Handler, hosts ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.work(ctx); ctx.Err() == nil {
			return err // one of the loops cannot run
		}
		return nil
	})
	group.Go(func() error { return shared.Serve(ctx, listener, handler, s.grace, hosts...) })
	return group.Wait()
}

// work runs the loops until the context is done, and what was begun is finished.
func (s *service) work(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.starter().Run(ctx) })
	group.Go(func() error { return s.deliverer().Run(ctx) })
	group.Go(func() error { return s.loop(ctx, "timeout", s.poll, s.timeout) })
	group.Go(func() error { return s.loop(ctx, "retry", s.interval, s.retries) })
	return group.Wait()
}

// loop takes a step as long as there is something to do, and pauses otherwise. It logs that it
// fails once, and once that it goes on.
func (s *service) loop(
	ctx context.Context, name string, interval time.Duration, step func(context.Context) (more bool, err error),
) error {
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
			_ = new(retry.Policy).Sleep(ctx, interval)
		}
	}
	return ctx.Err()
}

// config is what the environment says, and the times that it leaves open.
type config struct {
	limits   retryLimits   // of the policies that come with tasks
	interval time.Duration // of the retry loop
	poll     time.Duration // of the other loops
	lease    time.Duration // of a task whose on_start is called: two thirds of it may pass without the database
	hookTime time.Duration // within which a webhook must answer
	grace    time.Duration // for requests, when the service is to stop
}

// retryLimits are bounds of a [retryPolicy].
type retryLimits struct{ maxRetries, maxDelaySecs int32 }

// readConfig reads the environment.
func readConfig(getenv func(string) string) (config, error) {
	var errs []error
	read := func(name, value string) int32 {
		value = cmp.Or(getenv(name), value)
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s: %q: must be an integer from 1 to %d", name, value, math.MaxInt32))
		}
		return int32(n)
	}
	c := config{
		limits:   retryLimits{read("RETRY_MAX_RETRIES_LIMIT", "10"), read("RETRY_MAX_DELAY_LIMIT", "3600")},
		interval: time.Duration(read("RETRY_LOOP_INTERVAL_MS", "1000")) * time.Millisecond,
		poll:     time.Second,
		lease:    2 * time.Minute,
		hookTime: 15 * time.Second,
		grace:    10 * time.Second,
	}
	return c, errors.Join(errs...)
}

type metrics struct {
	*prometheus.Registry

	retries   *prometheus.CounterVec // by the number of the attempt that follows
	exhausted prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{Registry: prometheus.NewRegistry()}
	auto := promauto.With(m)
	m.retries = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "task_retry_total", Help: "Retries that became pending, by attempt.",
	}, []string{"attempt"})
	m.exhausted = auto.NewCounter(prometheus.CounterOpts{
		Name: "task_retry_exhausted_total", Help: "Tasks that failed because their retries were used up.",
	})
	return m
}

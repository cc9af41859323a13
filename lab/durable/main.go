// Command durable measures how many jobs that do nothing are done in a second, by a
// retrytable.Worker and by what else there is, each with jobs of its own, in turns; how long
// one job alone takes; and what becomes of the speed in minutes. It prints what raw/durable.txt
// has, in the form of Go's benchmarks:
//
//	make durable                                                 # all of it
//	go run ./durable -rounds 1 -places 16 -failing 0 -minutes 0  # in lab, to look
//
// The servers are those of the tests: RETRY_TEST_POSTGRES, RETRY_TEST_MARIADB and
// RETRY_TEST_REDIS say where, or they are at their usual ports on loopback. SQLite is in a
// temporary folder. PostgreSQL must vacuum by itself, as it does unless somebody has turned
// that off.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// task is what is measured.
type task struct {
	jobs    int
	places  int // how many jobs are worked on at a time
	failing int // of 100 jobs, how many fail once

	began func(job int64) // is called by River's work, if it is not nil
}

// fails reports whether an attempt at a job fails.
func (t task) fails(job int64, attempt int) bool { return attempt == 1 && int(job%100) < t.failing }

var errJob = errors.New("the job failed")

// contestant does the jobs of a task, and returns how long that took.
type contestant struct {
	name    string
	run     func(ctx context.Context, t task) (time.Duration, error)
	retries bool // it knows what to do with a job that failed
}

var contestants = []contestant{
	{"Worker", onPostgres(work), true},
	{"Worker, tuned pool", onPostgres(workTuned), true},
	{"River", onPostgres(onRiver), true},
	{"asynq, on Redis", onAsynq, true},
	{"loops by hand, one by one", onPostgres(inOnes), false},
	{"loops by hand, in hundreds", onPostgres(inHundreds), false},
	{"Worker on MariaDB", onMariaDB(work), true},
	{"Worker on SQLite", onSQLite(work), true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("durable", flag.ContinueOnError)
	jobs := flags.Int("jobs", 20_000, "how many jobs a round has")
	rounds := flags.Int("rounds", 5, "how often each is measured")
	places := flags.String("places", "16,100,1000", "how many jobs are worked on at a time")
	failing := flags.String("failing", "0,1,10", "of 100 jobs, how many fail once; others than 0 with 100 places only")
	minutes := flags.Int("minutes", 2, "how long the speed is watched")
	only := flags.String("only", "", "the contestant to measure, if not all")
	atOnce := flags.Bool("at-once", false, "measure only how soon jobs begin")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *atOnce {
		return begins(ctx, out)
	}
	var tasks []task
	for failing := range strings.SplitSeq(*failing, ",") {
		for places := range strings.SplitSeq(*places, ",") {
			f, err := strconv.Atoi(failing)
			p, wrong := strconv.Atoi(places)
			if err := errors.Join(err, wrong); err != nil {
				return err
			}
			if f == 0 || p == 100 {
				tasks = append(tasks, task{jobs: *jobs, places: p, failing: f})
			}
		}
	}
	if *minutes > 0 && *only == "" {
		if err := vacuums(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "go: %s\ngoos: %s\ngoarch: %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for range *rounds {
		for _, t := range tasks {
			if err := measure(ctx, out, t, *only); err != nil {
				return err
			}
		}
	}
	if *only != "" {
		return nil
	}
	return errors.Join(alone(ctx, out, 300), begins(ctx, out), sustained(ctx, out, *minutes))
}

// report prints a line of a benchmark.
func report(out io.Writer, workload, by, format string, values ...any) {
	fmt.Fprintf(out, "Benchmark%s/by=%s-%d 1 "+format+"\n",
		slices.Concat([]any{workload, strings.ReplaceAll(by, " ", "_"), runtime.NumCPU()}, values)...)
}

// measure lets everybody do a task.
func measure(ctx context.Context, out io.Writer, t task, only string) error {
	for _, c := range contestants {
		if only != "" && only != c.name || t.failing > 0 && !c.retries {
			continue
		}
		took, err := c.run(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		report(out, fmt.Sprintf("Durable/places=%d/failing=%d", t.places, t.failing), c.name, "%.0f jobs/s", float64(t.jobs)/took.Seconds())
	}
	return nil
}

// alone prints how long one job takes that is alone, from its insertion, of which its
// worker is told, until its outcome is stored.
func alone(ctx context.Context, out io.Writer, jobs int) error {
	for _, c := range []struct {
		name string
		run  func(context.Context, int) ([]time.Duration, error)
	}{{"Worker", oneByOne}, {"River", riverOneByOne}} {
		all, err := c.run(ctx, jobs)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		slices.Sort(all)
		report(out, "Alone", c.name, "%.2f p50-ms %.2f p99-ms", milliseconds(all[len(all)/2]), milliseconds(all[len(all)*99/100]))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Command processes measures a backlog of jobs behind an API with a limit that nobody knows, in
// real processes: the API is an HTTP server on loopback, and four processes with 25 places each,
// which are this program again, do the jobs of PostgreSQL or Redis. It prints what
// raw/quota.txt has, in the form of Go's benchmarks:
//
//	make quota                                                             # all of it
//	go run ./quota/processes -rounds 1 -jobs 100 -limit 20 -window 500ms   # in lab, to look
//
// The servers are those of the tests: RETRY_TEST_POSTGRES and RETRY_TEST_REDIS say where, or they
// are at their usual ports on loopback. In PostgreSQL, each measurement has a database of its own,
// whose transactions are counted.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// job kinds: one behind the limit, and one that has none.
const (
	prompt = "prompt"
	other  = "other"
)

// task is what the processes of a measurement are told.
type task struct {
	By        string // the name of a contestant
	Processes int
	Places    int // in each process
	Prompts   int // jobs behind the limit
	Before    int // such jobs before, one after the other, for so long; then nothing comes for a while
	Lasts     time.Duration
	Idle      time.Duration
	Begins    time.Time // when Prompts are due, if there are jobs before
	Server    string    // a key of kinds
	Others    int       // other jobs in the same table or queue
	Limit     int
	Window    time.Duration
	API       string // URL
	DSN       string // of PostgreSQL
	Queue     string // in Redis
}

// contestant does the jobs of a task.
type contestant struct {
	name  string
	place place
	work  func(ctx context.Context, t *task, done *tally) error // in each process, until ctx ends
}

var contestants = []contestant{
	{name: "Worker", place: table{}, work: worker},
	{name: "Worker, Cooldown in the client", place: table{}, work: workerCooldown},
	{name: "Worker, a rate.Limiter with a quarter", place: table{}, work: workerLimiter},
	{name: "Worker, Quota", place: table{}, work: workerQuota},
	{name: "Worker, Quota of a kind", place: table{}, work: workerQuotaOfAKind},
	{name: "River, JobSnooze by hand", place: riverTables{}, work: riverByHand},
	{name: "River, retryriver with a Quota", place: riverTables{}, work: riverQuota},
	{name: "asynq, retryasynq with a Quota", place: asynqQueue{}, work: asynqQuota},
	{name: "Redis Streams, retrystreams with a Quota", place: stream{}, work: streamQuota},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "processes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if text, ok := os.LookupEnv(taskVariable); ok {
		return child(ctx, text, os.Stdin, out)
	}
	t := task{Processes: 4}
	flags := flag.NewFlagSet("processes", flag.ContinueOnError)
	flags.IntVar(&t.Places, "places", 25, "how many jobs each of four processes works on at a time")
	flags.IntVar(&t.Prompts, "jobs", 1000, "how many jobs are behind the limit")
	flags.StringVar(&t.Server, "server", "window", "what the API is like: "+strings.Join(slices.Sorted(maps.Keys(kinds)), "; "))
	flags.IntVar(&t.Before, "before", 0, "how many jobs come before, one after the other; in tables only")
	flags.DurationVar(&t.Lasts, "lasts", 90*time.Second, "how long those before come")
	flags.DurationVar(&t.Idle, "idle", 0, "how long nothing comes after them")
	flags.IntVar(&t.Limit, "limit", 50, "how many requests the API takes in a window")
	flags.DurationVar(&t.Window, "window", 2*time.Second, "how long a window is")
	others := flags.Int("others", 20_000, "how many other jobs there are, when these are measured; 0: they are not")
	rounds := flags.Int("rounds", 3, "how often each is measured")
	only := flags.String("only", "", "the contestants to measure, separated by semicolons, if not all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, ok := kinds[t.Server]; !ok {
		return fmt.Errorf("-server: %q: is none of them", t.Server)
	}
	fmt.Fprintf(out, "go: %s\ngoos: %s\ngoarch: %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for range *rounds {
		for i := range contestants {
			c := &contestants[i]
			if *only != "" && !slices.Contains(strings.Split(*only, ";"), c.name) {
				continue
			}
			t.By = c.name
			if err := measure(ctx, out, c, t, *others); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// measure measures a contestant: the jobs behind the limit, and then what other jobs take, alone
// and beside those.
func measure(ctx context.Context, out io.Writer, c *contestant, t task, others int) error {
	r, err := c.do(ctx, t, 0)
	if err != nil {
		return err
	}
	jobs := float64(t.Before + t.Prompts)
	line := fmt.Sprintf("%.3f refused/job %.3f of-ideal", float64(r.refused)/jobs, r.took.Seconds()/r.ideal.Seconds())
	if r.transactions > 0 {
		line += fmt.Sprintf(" %.2f transactions/job", float64(r.transactions)/jobs)
	}
	if others > 0 {
		alone, beside := t, t
		alone.Prompts, alone.Others, beside.Others = 0, others, others
		a, err := c.do(ctx, alone, longest)
		if err != nil {
			return err
		}
		b, err := c.do(ctx, beside, longest)
		if err != nil {
			return err
		}
		line += fmt.Sprintf(" %.0f others/s %.3f of-others-alone", b.others, b.others/a.others)
	}
	fmt.Fprintf(out, "BenchmarkQuota/jobs=%d/limit=%d_in_%v%s/by=%s-%d 1 %s\n",
		t.Prompts, t.Limit, t.Window, strings.ReplaceAll(t.scene(), " ", "_"), strings.ReplaceAll(c.name, " ", "_"), runtime.NumCPU(), line)
	return nil
}

// scene is what a task has that others have not.
func (t *task) scene() (name string) {
	if t.Server != "window" {
		name = ", " + t.Server
	}
	if t.Before > 0 {
		name += fmt.Sprintf(", after %d in %v and %v", t.Before, t.Lasts, t.Idle)
	}
	return name
}

// longest is how long other jobs are watched.
const longest = 15 * time.Second

// result is what a measurement has found.
type result struct {
	refused      int
	took, ideal  time.Duration
	transactions int
	others       float64 // a second
}

// do has processes do the jobs of a task, all of them or, with a limit, the other jobs for so long.
func (c *contestant) do(ctx context.Context, t task, limit time.Duration) (r result, err error) {
	server := &api{kind: kinds[t.Server], limit: t.Limit, window: t.Window}
	url, stop, err := server.serve()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t.API = url
	if t.Before > 0 {
		t.Begins = time.Now().Add(t.Lasts + t.Idle)
	}
	remove, err := c.place.prepare(ctx, &t)
	if remove != nil {
		defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return r, err
	}
	before, err := c.place.transactions(ctx, &t)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	last, done, err := start(ctx, &t, limit)
	if err != nil {
		return r, err
	}
	if r.transactions, err = c.place.transactions(ctx, &t); err != nil {
		return r, err
	}
	r.transactions -= before
	r.refused, r.ideal = server.refused, server.ideal(t.Prompts)
	r.took = last.Sub(cmp.Or(t.Begins, server.first, begun))
	r.others = float64(done.others) / last.Sub(done.began).Seconds()
	return r, nil
}

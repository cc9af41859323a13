// Runs is a processor that replays recorded requests, and those that fail for a
// passing reason again; see README.md.
//
//	runs serve -dsn postgres://…      # works on the table runs until interrupted
//	runs migrate -dsn postgres://…    # adds what that table lacks
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // it runs on MariaDB too

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "runs", About: "replays recorded requests, and those that fail for a passing reason again.",
	Commands: []shared.Command{
		{Name: "serve", About: "processes runs until interrupted", Flags: serve},
		shared.Migration(schemaOf),
		shared.Adoption(schemaOf),
		{Name: "again", About: "has runs processed again that have failed permanently", Flags: again},
	},
}

func serve(flags *flag.FlagSet) shared.Action {
	c := newConfig(flags)
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if err := shared.Usage(errors.Join(shared.Positive(flags), c.Retry.policy().Validate())); err != nil {
			return err
		}
		p := newProcessor(db, c, out)
		if err := db.Check(ctx, p.schema()); err != nil {
			return err
		}
		return p.worker(c.Workers).Run(ctx)
	})
}

// schemaOf is what a processor with the default settings needs.
func schemaOf(db *shared.DB) *shared.Schema {
	return newProcessor(db, newConfig(flag.NewFlagSet("", flag.ContinueOnError)), io.Discard).schema()
}

func again(flags *flag.FlagSet) shared.Action {
	run := flags.String("run", "", "the ID of a run; all if empty")
	within := flags.Duration("within", 0, "a time over which they are spread")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		jobs := retrytable.Jobs[string]{All: *run == ""}
		if !jobs.All {
			jobs.IDs = []string{*run}
		}
		n, err := newStore(db, 0, "").TryAgain(ctx, db, jobs, retrytable.Again{Spread: *within})
		if err == nil {
			fmt.Fprintln(out, n, "will be processed again")
		}
		return err
	})
}

// RetryConfig says when a run that failed is processed again.
type RetryConfig struct {
	MaxAttempts       int           // the first one included
	InitialBackoff    time.Duration // after the first failure
	MaxBackoff        time.Duration
	BackoffMultiplier float64
}

// DaemonConfig is what a processor is told.
type DaemonConfig struct {
	Retry      RetryConfig
	Lease      time.Duration
	Poll       time.Duration
	Workers    int
	Categories string
}

// newConfig returns the settings with their defaults, which the flags change.
func newConfig(flags *flag.FlagSet) *DaemonConfig {
	c := &DaemonConfig{}
	flags.IntVar(&c.Retry.MaxAttempts, "max-attempts", 8, "how often a run is attempted, the first time included")
	flags.DurationVar(&c.Retry.InitialBackoff, "initial-backoff", time.Minute, "the delay after the first failure")
	flags.DurationVar(&c.Retry.MaxBackoff, "max-backoff", time.Hour, "the longest delay, unless a service asks for more")
	flags.Float64Var(&c.Retry.BackoffMultiplier, "backoff-multiplier", 2, "how much longer every delay is than the one before")
	flags.DurationVar(&c.Lease, "lease", time.Minute,
		"after how long a run is taken from a processor that is dead; an attempt gets half of it")
	flags.DurationVar(&c.Poll, "poll", time.Second, "the pause when there is nothing to do")
	flags.IntVar(&c.Workers, "workers", 2, "how many runs are processed at a time")
	flags.StringVar(&c.Categories, "categories", "", "the categories that may be processed, as in web,api; all if empty")
	return c
}

// policy is the policy whose Next is calculate_next_retry. The waits are to be exact, so
// that an operator can tell when a run comes back.
func (c *RetryConfig) policy() *retry.Policy {
	return &retry.Policy{
		Name:           "run",
		MaxAttempts:    c.MaxAttempts,
		Backoff:        retry.Exponential{Initial: c.InitialBackoff, Multiplier: c.BackoffMultiplier},
		MaxDelay:       c.MaxBackoff,
		Jitter:         retry.NoJitter,
		FreeRateLimits: 1,                  // with a retry_after, retry_count stays; nothing counts these waits
		MaxRetryAfter:  7 * 24 * time.Hour, // whoever wants more has to be asked
		Classifier:     retryhttp.Classify,
	}
}

// errorClass is the error_class of a verdict: error_class_to_string. What nobody
// knows is retried, so it is retryable.
func errorClass(v retry.Verdict) string {
	return cmp.Or(v.Class, retry.Retryable).String()
}

// processor processes runs. Any number of them may work on the same table.
type processor struct {
	*store

	policy *retry.Policy
	replay func(context.Context, *request) (outcome, error)
	poll   time.Duration
	log    *slog.Logger
}

func newProcessor(db *shared.DB, c *DaemonConfig, out io.Writer) *processor {
	p := &processor{newStore(db, c.Lease, c.Categories), c.Retry.policy(), replay, c.Poll, slog.New(slog.NewTextHandler(out, nil))}
	p.log.Info("processor", "policy", p.policy, "categories", c.Categories)
	return p
}

// worker processes so many runs at a time.
func (p *processor) worker(n int) *retrytable.Worker[string] {
	policy := *p.policy
	policy.AttemptTimeout = p.Lease / 2
	return &retrytable.Worker[string]{
		Table: p.Table, DB: p.db.DB, Policy: &policy, Work: p.process, Concurrency: n, Poll: p.poll,
		ClaimArgs: p.categories, After: p.tell,
		FinishArgs: func(o *retrytable.Outcome[string]) []any { return []any{errorClass(o.Decision.Verdict)} },
		OnError:    shared.Failed(p.log, "processor", slog.LevelError),
	}
}

// process is process_run and process_replay_result.
func (p *processor) process(ctx context.Context, job *retrytable.Job[string]) error {
	r := &request{Job: job}
	recorded := p.db.SQL("SELECT category, url, expected FROM runs WHERE id = $1")
	if err := p.db.QueryRowContext(ctx, recorded, job.ID).Scan(&r.category, &r.url, &r.expected); err != nil {
		return retryjob.MarkNotStarted(err)
	}
	p.log.Info("attempt", "run", r.ID, "attempt", job.State.Failures+1, "retry", job.Kind != "", "category", r.category)
	result, err := p.replay(ctx, r)
	job.Data = result
	job.SucceedAs(string(result))
	return err
}

// tell logs what was stored about a run.
func (p *processor) tell(_ context.Context, o *retrytable.Outcome[string]) {
	d, log := o.Decision, p.log.With("run", o.Job.ID)
	if o.Err != nil {
		log = log.With("error", o.Err, "error_class", errorClass(d.Verdict))
	}
	switch {
	case o.Released: // as it was
	case o.Err == nil:
		log.Info("succeeded", "attempt", o.Job.State.Failures+1, "retry", o.Job.Kind != "", "status", o.Job.Data)
	case d.Retry:
		log.Warn("retry scheduled", "attempt", d.State.Failures+1, "delay", d.Delay)
	case d.Stop == retry.StopAttempts:
		log.Error("max attempts reached", "attempts", d.State.Failures)
	default:
		log.Error("permanently failed", "reason", d.Stop)
	}
}

// replay sends the request of a run once, and compares the answer with the recorded
// one. What it returns as an error says by its class whether to try again.
func replay(ctx context.Context, r *request) (result outcome, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return "", retry.MarkFinal(retryhttp.Redact(err))
	}
	err = retryhttp.Do(http.DefaultClient, &retry.Policy{Name: "replay", MaxAttempts: 1}, req, func(resp *http.Response) error {
		if r.expected == nil {
			result = needsReview
			_, err := io.Copy(io.Discard, resp.Body) // it has to arrive whole
			return err
		}
		// One byte more than the recorded answer tells a longer one from it, and no answer
		// can take more memory than the recorded one.
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(*r.expected))+1))
		if result = failed; *r.expected == string(body) {
			result = passed
		}
		return err
	})
	return result, err
}

// outcome is what a run that was replayed has come to.
type outcome string

const (
	passed      outcome = "passed"
	needsReview outcome = "needs_review"
	failed      outcome = "failed" // the answer was another one: no error, and no retry
)

// store is the table runs, as far as a processor may see it.
type store struct {
	*retrytable.Table[string]

	db         *shared.DB
	categories []any // those allowed; all if empty
}

// newStore says what the columns mean. A claim is get_next_run_to_process: of the runs that
// are discovered, and those in error whose next_retry_at has come, it takes the one that was
// submitted first. It clears next_retry_at and preserves retry_count. What is added to the
// table, a lease and a fence, has no say in what is due.
func newStore(db *shared.DB, lease time.Duration, categories string) *store {
	db.Instants = db.TextLike("runs", "next_retry_at", "submitted_date")
	s := &store{db: db, Table: &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "runs", Lease: lease, Instants: db.Instants,
		Columns: retrytable.Columns{
			Retries: "retry_count", Due: "next_retry_at",
			Kind: "error_class", // a run is of the kind of its last failure
		},
		Statuses: retrytable.Statuses{
			Ready: "discovered", Waiting: "error", Running: []string{"processing"},
			Done: []string{string(passed), string(needsReview), string(failed)}, Dead: "error",
		},
		// MySQL has no Merge: a claim makes the first 100 retries that are due discovered.
		OrderBy: "submitted_date, id", Merge: db.Dialect != retrytable.MySQL,
		Set: retrytable.Set{
			Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields
			Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
		},
	}}
	var in []string
	for category := range strings.FieldsFuncSeq(categories, func(r rune) bool { return r == ',' || r == ' ' }) {
		s.categories = append(s.categories, category)
		in = append(in, fmt.Sprintf("$%d", len(s.categories)))
		s.Where = "category IN (" + strings.Join(in, ", ") + ")"
	}
	return s
}

//go:embed schema.yaml
var schemaYAML string

// schema is what a processor needs of the database, and writes to it.
func (p *processor) schema() *shared.Schema {
	return shared.MustSchema(schemaYAML).For(p.worker(1))
}

// request is what to replay.
type request struct {
	*retrytable.Job[string]

	category, url string
	expected      *string
}

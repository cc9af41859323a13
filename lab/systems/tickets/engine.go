package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// engine has agents work on tickets.
type engine struct {
	db       *shared.DB
	table    *retrytable.Table[string]
	policy   *retry.Policy
	agent    func(context.Context, ticket) error
	vm       string
	quotaFor func(design string) retry.Pacer // nil if they have none
	metrics  *metrics
	notify   func(change) // after every change of a state but to in_progress
	log      *slog.Logger

	interval time.Duration // between looks for work
	grace    time.Duration // for the agents, when the engine has to stop
}

// change is what notifyTicketStateChange tells of a ticket.
type change struct {
	Ticket            string
	State             string
	Category          string // of the error
	Error             string
	Reason            string    // why it is on hold: max_retries, or why there is no retry before that
	RetryAfter        time.Time // if it is ready
	AttemptsRemaining int
}

// worker works on so many tickets at a time.
func (e *engine) worker(n int) *retrytable.Worker[string] {
	return &retrytable.Worker[string]{
		Table: e.table, DB: e.db.DB, Policy: e.policy, Work: e.work, Concurrency: n,
		Poll: e.interval, Grace: e.grace, Lost: errLost, QuotaFor: e.quotaFor,
		ClaimArgs: []any{e.vm}, FinishArgs: e.decided, InTx: e.logDecision, After: e.tell, OnError: shared.Failed(e.log, "engine", slog.LevelWarn),
	}
}

// work has the agent work on a claimed ticket.
func (e *engine) work(ctx context.Context, job *retrytable.Job[string]) error {
	t, err := load(ctx, e.db, job.Row)
	if err != nil {
		return retryjob.MarkNotStarted(err)
	}
	return told(e.agent(ctx, t))
}

// decided is retryOrFailTicket: the ticket is ready again, after the delay of its
// category, or on hold.
func (e *engine) decided(o *retrytable.Outcome[string]) []any {
	d := &o.Decision
	category, text := cmp.Or(d.Verdict.Category, unknown), storable(o.Err.Error())
	c := change{
		Ticket: o.Job.ID, State: ready, Category: category, Error: text,
		RetryAfter: d.At, AttemptsRemaining: max(d.Limit-d.State.Failures, 0),
	}
	hold := sql.NullString{Valid: !d.Retry}
	if hold.Valid {
		c.State, c.Reason, c.RetryAfter, hold.String = onHold, d.Stop.Error(), time.Time{}, d.Stop.Error()+": "+category
		if d.Stop == retry.StopAttempts {
			c.Reason, hold.String = "max_retries", "Max retries exceeded: "+category
		}
	}
	o.Job.Data = c
	own := e.policy.Overrides[category] // what retry_strategy has
	return []any{hold, shared.JSON{In: retry.Policy{Name: category, MaxAttempts: own.MaxAttempts, Backoff: own.Backoff}}}
}

// logDecision logs a decision in the transaction that stores it.
func (e *engine) logDecision(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[string]) error {
	if o.Err == nil {
		return nil
	}
	c, d := o.Job.Data.(change), &o.Decision
	return logActivity(ctx, tx, e.db, o.Job.ID, "retry_decision", map[string]any{
		"errorCategory": c.Category, "currentAttempt": d.State.Failures, "maxRetries": d.Limit - 1,
		"shouldRetry": d.Retry, "nextDelayMs": d.Delay.Milliseconds(), "error": c.Error,
	}, "system")
}

// tell tells of what was stored.
func (e *engine) tell(_ context.Context, o *retrytable.Outcome[string]) {
	if o.Released {
		return
	}
	c := change{Ticket: o.Job.ID, State: needsReview}
	if o.Err != nil {
		c = o.Job.Data.(change)
	}
	e.metrics.ended(o, c.Category)
	e.notify(c)
}

// storable is text without what PostgreSQL has no place for: an agent's may be
// anything, and a decision must not be lost for that.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

var errNoDefinition = errors.New("logic error: the ticket has no design with a definition")

// shell is an agent that runs the definition of a design with sh.
func shell(ctx context.Context, t ticket) error {
	if t.Definition == "" {
		return errNoDefinition
	}
	return retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", t.Definition)
		cmd.Env = append(os.Environ(), "TICKET_ID="+t.ID, "RETRY_COUNT="+strconv.Itoa(t.Retries), "REJECTION_COUNT="+strconv.Itoa(t.Rejections))
		retryexec.KillWithParent(cmd) // or it would run on beside its own retry
		return cmd
	})
}

// told is an error of an agent with both ends of what its command wrote, if that was more than the
// line in the text of the error: the last line alone seldom says why.
func told(err error) error {
	const end = 700
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	wrote := strings.TrimSpace(string(exit.Stderr))
	if len(wrote) > 2*end {
		wrote = wrote[:end] + "\n[...]\n" + wrote[len(wrote)-end:]
	}
	if !strings.Contains(wrote, "\n") {
		return err
	}
	return fmt.Errorf("%w\n%s", err, wrote)
}

// metrics are the four that show whether retries help, for what this process did.
type metrics struct {
	registry           *prometheus.Registry
	retried, exhausted *prometheus.CounterVec
	delay              prometheus.Histogram
	retries, successes atomic.Int64 // attempts that were retries, when they end
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	auto := promauto.With(m.registry)
	m.retried = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "tickets_retried_total", Help: "Failures that are retried, by error category.",
	}, []string{"category"})
	m.exhausted = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "tickets_retry_exhausted_total", Help: "Tickets put on hold because they had all their retries, by error category.",
	}, []string{"category"})
	m.delay = auto.NewHistogram(prometheus.HistogramOpts{
		Name: "retry_delay_seconds", Help: "Backoff delays.",
		Buckets: append([]float64{0}, prometheus.ExponentialBuckets(0.25, 2, 15)...), // to 4096
	})
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "retry_success_rate", Help: "Percentage of the retries so far that succeeded; NaN before the first has ended.",
	}, func() float64 { // loaded in this order, and counted in the other: at most 100
		return 100 * float64(m.successes.Load()) / float64(m.retries.Load())
	})
	for _, category := range []string{transient, apiError, codeError, systemError, unknown} {
		m.retried.WithLabelValues(category) // there from the start, for rate()
		m.exhausted.WithLabelValues(category)
	}
	return m
}

// ended counts an attempt if it was a retry, and what follows from its failure.
func (m *metrics) ended(o *retrytable.Outcome[string], category string) {
	again := o.Job.State.Failures > 0
	if again {
		m.retries.Add(1)
	}
	switch d := o.Decision; {
	case o.Err == nil && again:
		m.successes.Add(1)
	case o.Err == nil:
	case d.Retry:
		m.retried.WithLabelValues(category).Inc()
		m.delay.Observe(d.Delay.Seconds())
	case d.Stop == retry.StopAttempts:
		m.exhausted.WithLabelValues(category).Inc()
	}
}

// serve exposes them to this machine until the context is done, and returns where.
func (m *metrics) serve(ctx context.Context, address string, log *slog.Logger) (url string, err error) {
	listener, err := shared.Listen(ctx, address)
	if err != nil {
		return "", fmt.Errorf("-metrics: %w", err)
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return "", shared.Usage(errors.Join(fmt.Errorf("-metrics: %s: must be a loopback address", address), listener.Close()))
	}
	go func() {
		if err := shared.Serve(ctx, listener, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}), time.Second); ctx.Err() == nil {
			log.Error("metrics", "error", err)
		}
	}()
	return "http://" + listener.Addr().String() + "/metrics", nil
}

// Partitions is a daemon that retries failed partitions of a data pipeline and
// keeps no state of its own; see README.md.
//
//	go run . serve -dsn postgres://…
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var program = shared.Program{
	Name:  "partitions",
	About: "makes failed partitions pending again when their backoff has passed.",
	Commands: []shared.Command{
		{Name: "serve", About: "sweeps until it is interrupted", Flags: serve},
		{Name: "state retry", About: "sweeps once", Flags: stateRetry},
		{Name: "index", About: "prints the statement for the index of sweeps", Flags: index},
	},
}

func main() { shared.Main(program.Run) }

func serve(flags *flag.FlagSet) shared.Action {
	interval := flags.Duration("interval", time.Minute, "the pause between sweeps")
	return onTable(flags, func(ctx context.Context, d *daemon, _ io.Writer) error {
		d.interval = *interval
		return d.serve(ctx)
	})
}

func stateRetry(flags *flag.FlagSet) shared.Action {
	var s selection
	flags.StringVar(&s.customer, "customer", "", "only partitions of this customer")
	flags.StringVar(&s.query, "query", "", "only partitions of this query")
	flags.BoolVar(&s.force, "force", false, "whatever their backoff, and terminal ones too")
	return onTable(flags, func(ctx context.Context, d *daemon, out io.Writer) (err error) {
		flags.Visit(func(f *flag.Flag) {
			if s.force && (f.Name == "base" || f.Name == "cap" || f.Name == "jitter") {
				err = shared.Usage(fmt.Errorf("-%s: with -force, nothing waits for it", f.Name))
			}
		})
		if err != nil {
			return err
		}
		n, err := d.sweep(ctx, s)
		fmt.Fprintln(out, n, map[bool]string{false: "retried", true: "would be retried"}[d.dryRun])
		return err
	})
}

func index(flags *flag.FlagSet) shared.Action {
	return shared.On(flags, shared.OpenReadOnly, func(_ context.Context, db *shared.DB, out io.Writer) error {
		_, err := fmt.Fprintln(out, db.SQL(indexOfSweeps)+";")
		return err
	})
}

// onTable is an action of a daemon on the table of a user, with the flags of the daemon.
func onTable(flags *flag.FlagSet, action func(ctx context.Context, d *daemon, out io.Writer) error) shared.Action {
	dryRun := flags.Bool("dry-run", false, "say what would be retried, and change nothing")
	base := flags.Duration("base", 5*time.Minute, "the delay after the first failure, which then doubles")
	limit := flags.Duration("cap", 6*time.Hour, "the longest delay")
	jitter := flags.Duration("jitter", 30*time.Second, "how much a delay may be off, either way")
	return shared.On(flags, shared.If(dryRun, shared.OpenReadOnly, shared.OpenExisting), func(ctx context.Context, db *shared.DB, out io.Writer) error {
		d := &daemon{
			db: db, dryRun: *dryRun, policy: newPolicy(*base, *limit, *jitter), repeat: newRepeat(),
			log: slog.New(slog.NewTextHandler(out, nil)),
		}
		if err := shared.Usage(errors.Join(shared.Positive(flags, "jitter"), d.policy.Validate())); err != nil {
			return err
		}
		if err := d.check(ctx); err != nil {
			return err
		}
		d.log.Info("partitions", "policy", d.policy, "dry_run", d.dryRun)
		return action(ctx, d, out)
	})
}

// newPolicy returns the required policy: exponential, with a cap and an
// optional jitter of a fixed size.
func newPolicy(base, limit, jitter time.Duration) *retry.Policy {
	return &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Initial: base, Multiplier: 2},
		MaxDelay:    limit,
		Jitter:      retry.PlusMinus(jitter),
	}
}

// daemon has settings and no state: it decides from partition_state alone.
type daemon struct {
	db       *shared.DB
	policy   *retry.Policy // of partitions
	repeat   *retry.Policy // of transactions
	interval time.Duration
	dryRun   bool
	stamp    retrytable.Instants // of updated_at, if it is text, as SQLite may have it
	log      *slog.Logger
}

// newRepeat returns the policy of transactions. In a database that is in trouble, the
// batches share what is spent on repeating them; the next sweep comes anyhow.
func newRepeat() *retry.Policy { return &retry.Policy{Name: "batch", Budget: &retry.Budget{}} }

// partition is a failed partition.
type partition struct {
	customer, query, key string
	attempts             int
	age                  time.Duration // since updated_at, by the clock of the database
	delay                time.Duration // from updated_at until it may be retried
}

func (p partition) name() string { return strings.Join([]string{p.customer, p.query, p.key}, "/") }

// selection selects the partitions of a sweep. The zero selection means all.
type selection struct {
	customer, query string
	force           bool // also before the backoff has passed, and terminal ones too
}

// serve sweeps until the context is done.
func (d *daemon) serve(ctx context.Context) error {
	for {
		if err := new(retry.Policy).Sleep(ctx, d.interval); err != nil {
			return err
		}
		if _, err := d.sweep(ctx, selection{}); err != nil && ctx.Err() == nil {
			d.log.Error("sweep", "error", err) // the next sweep starts from the stored rows
		}
	}
}

// sweep retries the eligible partitions, and returns their number. The command
// is a sweep too.
func (d *daemon) sweep(ctx context.Context, s selection) (n int, err error) {
	eligible, err := d.eligible(ctx, s)
	for _, batch := range batches(eligible) {
		retried, failure := d.stateRetry(ctx, batch, s.force)
		err = errors.Join(err, failure)
		for _, p := range retried {
			d.log.Info("retry", "partition", p.name(), "attempt_count", p.attempts, "delay", p.delay, "dry_run", d.dryRun)
		}
		n += len(retried)
	}
	return n, err
}

const notTerminal = `coalesce(replace(error_message, '[terminal]', '') = error_message, true)`

// attemptCount is a number even if the row has NULL, and a key is text: a row that cannot
// be read would stop the retries of all others.
const attemptCount = `CAST(coalesce(attempt_count, 0) AS bigint)`

const selectFailed = `
	SELECT coalesce(CAST(customer AS text), ''), coalesce(CAST(query AS text), ''), coalesce(CAST(partition_key AS text), ''),
		` + attemptCount + `, CAST({updated} AS {instant}), {now} FROM partition_state
	WHERE status = 'failed' AND {updated} <= {now} - $1 * {microsecond}
		AND ($2 OR {not_terminal}) AND ($3 = '' OR CAST(customer AS text) = $3) AND ($4 = '' OR CAST(query AS text) = $4)
	ORDER BY 1, 2, 3`

const transition = `
	UPDATE partition_state SET status = 'pending', updated_at = {stamp}
	WHERE customer = $1 AND query = $2 AND partition_key = $3 AND status = 'failed' AND ` + attemptCount + ` = $4
		AND {updated} <= {now} - $5 * {microsecond} AND ($6 OR {not_terminal}) RETURNING 1`

// eligible returns the failed partitions whose delay has passed, in the order of
// their keys. The query leaves out partitions younger than the shortest possible
// delay.
func (d *daemon) eligible(ctx context.Context, s selection) ([]partition, error) {
	shortest, _ := d.policy.Bounds(1)
	if s.force {
		shortest = 0
	}
	failed, err := shared.Query(ctx, d.db, func(rows *sql.Rows) (p partition, err error) {
		var updated, now shared.Instant
		err = rows.Scan(&p.customer, &p.query, &p.key, &p.attempts, &updated, &now)
		p.age = now.Sub(updated.Time)
		if !s.force {
			p.delay = d.delay(p)
		}
		return p, err
	}, d.sql(selectFailed), shortest.Microseconds(), s.force, s.customer, s.query)
	return slices.DeleteFunc(failed, func(p partition) bool { return p.age < p.delay }), err
}

// delay is the delay after an attempt_count, in milliseconds, the resolution of
// both databases. Its jitter depends only on the partition and its
// attempt_count, so that every sweep of every instance gets the same delay.
func (d *daemon) delay(p partition) time.Duration {
	s := retry.State{Failures: max(p.attempts, 1), Key: p.name()}
	return d.policy.Delay(s).Truncate(time.Millisecond)
}

// batches splits partitions by customer and query.
func batches(all []partition) (split [][]partition) {
	for i, p := range all {
		if i == 0 || p.customer != all[i-1].customer || p.query != all[i-1].query {
			split = append(split, nil)
		}
		split[len(split)-1] = append(split[len(split)-1], p)
	}
	return split
}

// stateRetry is the only transition from failed to pending. The statement that
// writes checks again that each partition is eligible: a partition that was
// retried, failed again, or was changed in any other way meanwhile stays as it
// is. It returns the partitions that it changed. Repeating it changes nothing,
// because they are pending.
func (d *daemon) stateRetry(ctx context.Context, batch []partition, force bool) (retried []partition, err error) {
	if d.dryRun {
		return batch, nil
	}
	idempotent := &retrysql.TxOptions{Idempotent: true}
	err = retrysql.InTx(ctx, d.db.DB, d.repeat, idempotent, func(ctx context.Context, tx *sql.Tx) error {
		retried = nil
		for _, p := range batch {
			changed, err := shared.Query(ctx, tx, func(*sql.Rows) (partition, error) { return p, nil }, d.sql(transition),
				p.customer, p.query, p.key, p.attempts, p.delay.Microseconds(), force)
			if err != nil {
				return err
			}
			retried = append(retried, changed...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return retried, nil
}

// schemaYAML has the columns that a daemon needs of the table, which is the user's: a daemon makes
// neither the table nor an index.
//
//go:embed schema.yaml
var schemaYAML string

// indexOfSweeps is the statement that makes the index of sweeps.
const indexOfSweeps = "CREATE INDEX{concurrently} IF NOT EXISTS partition_state_failed " +
	"ON partition_state (updated_at) WHERE status = 'failed'"

// check refuses a table that does not fit. Each fault names the column, and a statement
// that repairs it.
func (d *daemon) check(ctx context.Context) error {
	have, err := d.db.Existing(ctx, d.db, "partition_state")
	if err != nil {
		return err
	}
	if d.db.Dialect == retrytable.SQLite && !strings.Contains(have["updated_at"].Type, "INT") {
		d.stamp = d.db.TextLike("partition_state", "updated_at")
	}
	needs := shared.MustSchema(d.sql(schemaYAML))
	if _, err := d.db.Lacks(ctx, d.db, needs); err != nil {
		return fmt.Errorf("%w\nit has to have %s", err, strings.ReplaceAll(needs.Tables[0].ByHand, "\n", ", "))
	}
	if have["updated_at"].Type == "timestamp without time zone" {
		d.log.Warn("updated_at has no time zone: it is read in that of the connection, which timezone=UTC in -dsn sets")
	}
	// Without the index, a sweep reads more rows.
	if _, exists := have["partition_state_failed"]; !exists {
		d.log.Warn("sweeps without an index", "statement", d.db.SQL(indexOfSweeps))
	}
	return nil
}

// sql has the words of [shared.DB.SQL], {not_terminal}, {updated} for updated_at as an instant that
// can be computed with, and {stamp} for what is written to it: SQLite's may be text.
func (d *daemon) sql(statement string) string {
	updated := "updated_at"
	if d.stamp != retrytable.DefaultInstants {
		updated = "CAST(round(unixepoch(updated_at, 'subsec') * 1000000) AS integer)"
	}
	return d.db.SQL(strings.NewReplacer("{updated}", updated, "{stamp}", d.stamp.Now(d.db.Dialect), "{not_terminal}", notTerminal).Replace(statement))
}

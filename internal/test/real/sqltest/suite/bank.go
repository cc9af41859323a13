// Package suite has the tests that are the same for several databases and
// drivers.
package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// errPoor is the error of a transfer that an account cannot pay.
var errPoor = errors.New("insufficient funds")

// Bank is a load of transfers between a few accounts, in which everybody is in
// everybody's way.
type Bank struct {
	DB         *sql.DB // its tables are account and journal
	Isolation  sql.IsolationLevel
	Goroutines int
	Transfers  int // of each goroutine
	Table      string
}

const (
	accounts = 8
	riches   = 1000 // of each account, to begin with
)

// Run makes the transfers and audits the books. What a transfer writes is
// computed from what it has read, so that an update that is lost is seen.
func (b Bank) Run(t *testing.T) {
	t.Helper()
	b.open(t)
	var attempts, poor atomic.Int64
	p := &retry.Policy{
		Name:        "transfer",
		MaxAttempts: 10_000,
		Backoff:     retry.Exponential{Initial: time.Millisecond},
		MaxDelay:    50 * time.Millisecond,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind != retry.Retrying {
				attempts.Add(int64(e.Attempt))
			}
		}},
	}
	done := make([][]bool, b.Goroutines)
	var group sync.WaitGroup
	start := time.Now()
	for g := range b.Goroutines {
		done[g] = make([]bool, b.Transfers)
		group.Go(func() {
			for i := range b.Transfers {
				err := b.transfer(t.Context(), p, g, i)
				if err == errPoor { //nolint:errorlint // as fn returned it
					poor.Add(1)
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				done[g][i] = true
			}
		})
	}
	group.Wait()
	t.Logf("%d transfers, %d of them refused, in %d attempts and %v",
		b.Goroutines*b.Transfers, poor.Load(), attempts.Load(), time.Since(start).Round(time.Millisecond))
	b.audit(t, done)
	testkit.Idle(t, b.DB)
}

func (b Bank) open(t *testing.T) {
	t.Helper()
	b.exec(t, "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)"+b.Table)
	b.exec(t, "CREATE TABLE journal (id INTEGER PRIMARY KEY, debit INTEGER NOT NULL, credit INTEGER NOT NULL, amount INTEGER NOT NULL)"+b.Table)
	for id := range accounts {
		b.exec(t, fmt.Sprintf("INSERT INTO account VALUES (%d, %d)", id, riches))
	}
}

func (b Bank) exec(t *testing.T, query string) {
	t.Helper()
	_, err := b.DB.ExecContext(t.Context(), query)
	require.NoError(t, err, query)
}

// transfer moves an amount that sometimes is more than there is.
func (b Bank) transfer(ctx context.Context, p *retry.Policy, g, i int) error {
	debit := (g + i) % accounts
	credit := (debit + 1 + i%(accounts-1)) % accounts
	amount := 1 + (g*31+i*17)%200
	key := g*1_000_000 + i
	opts := &retrysql.TxOptions{Isolation: b.Isolation}
	return retrysql.InTx(ctx, b.DB, p, opts, func(ctx context.Context, tx *sql.Tx) error {
		var has, gets int
		if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", debit)).Scan(&has); err != nil {
			return err
		}
		if has < amount {
			return errPoor
		}
		if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", credit)).Scan(&gets); err != nil {
			return err
		}
		for _, query := range []string{
			fmt.Sprintf("UPDATE account SET balance = %d WHERE id = %d", has-amount, debit),
			fmt.Sprintf("UPDATE account SET balance = %d WHERE id = %d", gets+amount, credit),
			fmt.Sprintf("INSERT INTO journal VALUES (%d, %d, %d, %d)", key, debit, credit, amount),
		} {
			if _, err := tx.ExecContext(ctx, query); err != nil {
				return err
			}
		}
		return nil
	})
}

// audit compares the books with what the callers were told, and with the
// accounts.
func (b Bank) audit(t *testing.T, done [][]bool) {
	t.Helper()
	succeeded := 0
	for _, of := range done {
		for _, ok := range of {
			if ok {
				succeeded++
			}
		}
	}
	want := make([]int, accounts)
	for id := range want {
		want[id] = riches
	}
	booked := 0
	b.each(t, "SELECT id, debit, credit, amount FROM journal", 4, func(row []int) {
		booked++
		key, debit, credit, amount := row[0], row[1], row[2], row[3]
		assert.True(t, done[key/1_000_000][key%1_000_000], "transfer %d was booked, but its caller got an error", key)
		want[debit] -= amount
		want[credit] += amount
	})
	assert.Equal(t, succeeded, booked, "transfers that succeeded, and that were booked")
	assert.Positive(t, booked)
	has, sum := make([]int, accounts), 0
	b.each(t, "SELECT id, balance FROM account", 2, func(row []int) {
		has[row[0]] = row[1]
		sum += row[1]
	})
	assert.Equal(t, want, has, "balances by the journal, and by the accounts")
	assert.Equal(t, accounts*riches, sum)
}

func (b Bank) each(t *testing.T, query string, columns int, fn func(row []int)) {
	t.Helper()
	rows, err := b.DB.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer func() { assert.NoError(t, rows.Close()) }()
	row := make([]int, columns)
	into := make([]any, columns)
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		require.NoError(t, rows.Scan(into...))
		fn(row)
	}
	require.NoError(t, rows.Err())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

const (
	inserters   = 8
	idlePause   = 50 * time.Millisecond
	idleJobs    = 200
	loadedJobs  = 1000 // a second
	loadedTime  = 10 * time.Second
	insertsTime = 3 * time.Second
)

// begins prints how soon a job begins after its commit, when it is alone and when there are many, and
// what the trigger costs those who insert.
func begins(ctx context.Context, out io.Writer) error {
	for _, c := range []struct {
		name string
		run  func(context.Context, *clock, func(insert insertion) error) error
	}{{"Worker", beginOnWorker}, {"River", beginOnRiver}} {
		for _, load := range []struct {
			name string
			jobs func(context.Context, *clock, insertion) error
		}{{"idle", oneAfterAnother}, {"1000", thousand}} {
			var k clock
			if err := c.run(ctx, &k, func(insert insertion) error { return load.jobs(ctx, &k, insert) }); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all := k.all()
			report(out, "Begin/load="+load.name, c.name, "%.3f ms-median %.3f ms-p99 %d jobs",
				all[len(all)/2].Seconds()*1000, all[len(all)*99/100].Seconds()*1000, len(all))
		}
	}
	return inserts(ctx, out)
}

type insertion func(ctx context.Context, job int64) error

// clock has when jobs were committed and when they began.
type clock struct {
	mu               sync.Mutex
	committed, begun map[int64]time.Time
	n                atomic.Int64
}

func (k *clock) note(at *map[int64]time.Time, job int64) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if *at == nil {
		*at = map[int64]time.Time{}
	}
	(*at)[job] = now
}

func (k *clock) begin(job int64) { k.note(&k.begun, job) }

// insert inserts the next job. One that began before its inserter knew that it was committed took no time.
func (k *clock) insert(ctx context.Context, insert insertion) error {
	job := k.n.Add(1)
	err := insert(ctx, job)
	k.note(&k.committed, job)
	return err
}

// all are the times that the jobs took, sorted, once all have begun.
func (k *clock) all() (all []time.Duration) {
	for {
		k.mu.Lock()
		if len(k.begun) >= len(k.committed) {
			break
		}
		k.mu.Unlock()
		time.Sleep(pause)
	}
	defer k.mu.Unlock()
	for job, at := range k.committed {
		all = append(all, max(k.begun[job].Sub(at), 0))
	}
	slices.Sort(all)
	return all
}

func oneAfterAnother(ctx context.Context, k *clock, insert insertion) error {
	for range idleJobs {
		if err := k.insert(ctx, insert); err != nil {
			return err
		}
		time.Sleep(idlePause/2 + rand.N(idlePause))
	}
	return nil
}

// thousand inserts at a steady pace, each inserter with its own instants.
func thousand(ctx context.Context, k *clock, insert insertion) error {
	return atOncePerInserter(func(int) error {
		ticker := time.NewTicker(inserters * time.Second / loadedJobs)
		defer ticker.Stop()
		for end := time.Now().Add(loadedTime); time.Now().Before(end); <-ticker.C {
			if err := k.insert(ctx, insert); err != nil {
				return err
			}
		}
		return nil
	})
}

func atOncePerInserter(do func(n int) error) error {
	errs := make([]error, inserters)
	var all sync.WaitGroup
	for n := range inserters {
		all.Go(func() { errs[n] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// notified is a bed whose table notifies, with a listener that feeds wake.
func notified(ctx context.Context, b *bed, wake chan<- struct{}) (stop func() error, err error) {
	b.table = &retrytable.Table[int64]{Name: "jobs", Notify: b.dsn[len(b.dsn)-10:]}
	b.db.SetMaxOpenConns(inserters + 4)
	b.db.SetMaxIdleConns(inserters + 4)
	if err := b.table.Migrate(ctx, b.db, retrytable.Migration[int64]{}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended, listening := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		ended <- retrypgx.Listen(ctx, &retry.Policy{MaxAttempts: 3}, retrypgx.Listener{
			Connect:  func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, b.dsn) },
			Channels: []string{b.table.Notify}, Wake: wake,
			Listening: func(context.Context, *pgx.Conn) error { listening <- struct{}{}; return nil },
		})
	}()
	select {
	case err = <-ended:
	case <-listening:
	}
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, err
}

func beginOnWorker(ctx context.Context, k *clock, jobs func(insertion) error) error {
	_, err := onPostgres(func(ctx context.Context, b *bed, _ task) (time.Duration, error) {
		wake := make(chan struct{}, 1)
		stopListening, err := notified(ctx, b, wake)
		if err != nil {
			return 0, err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		w := &retrytable.Worker[int64]{
			Table: b.table, DB: b.db, Policy: policy, Concurrency: 100, Wake: wake,
			Work: func(_ context.Context, job *retrytable.Job[int64]) error { k.begin(job.ID); return nil },
		}
		go func() { ended <- w.Run(ctx) }()
		err = jobs(func(ctx context.Context, job int64) error {
			_, err := b.db.ExecContext(ctx, "INSERT INTO jobs (id) VALUES ($1)", job)
			return err
		})
		k.all()
		stop()
		if failed := <-ended; !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
		return 0, errors.Join(err, stopListening())
	})(ctx, task{})
	return err
}

func beginOnRiver(ctx context.Context, k *clock, jobs func(insertion) error) error {
	_, err := onPostgres(func(ctx context.Context, b *bed, t task) (time.Duration, error) {
		client, err := newRiver(ctx, b, t)
		if err != nil {
			return 0, err
		}
		defer client.end()
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		err = jobs(func(ctx context.Context, job int64) error {
			_, err := client.Insert(ctx, riverArgs{job}, nil)
			return err
		})
		k.all()
		return 0, errors.Join(err, client.StopAndCancel(ctx))
	})(ctx, task{places: 100, began: k.begin})
	return err
}

// inserts prints how many rows are inserted in a second, each by a statement, with the trigger and without.
func inserts(ctx context.Context, out io.Writer) error {
	for round := range 8 { // which of two is first changes, because the machine gets faster or slower
		with := round%4 == 1 || round%4 == 2
		var n atomic.Int64
		_, err := onPostgres(func(ctx context.Context, b *bed, _ task) (_ time.Duration, err error) {
			b.db.SetMaxIdleConns(inserters)
			stop := func() error { return nil }
			if with {
				if stop, err = notified(ctx, b, make(chan struct{}, 1)); err != nil {
					return 0, err
				}
			}
			end := time.Now().Add(insertsTime)
			err = atOncePerInserter(func(int) error {
				for time.Now().Before(end) {
					if err := b.exec(ctx, "INSERT INTO jobs DEFAULT VALUES"); err != nil {
						return err
					}
					n.Add(1)
				}
				return nil
			})
			return 0, errors.Join(err, stop())
		})(ctx, task{})
		if err != nil {
			return err
		}
		report(out, fmt.Sprintf("Insert/inserters=%d", inserters), map[bool]string{false: "no trigger", true: "trigger"}[with],
			"%.0f inserts/s", float64(n.Load())/insertsTime.Seconds())
	}
	return nil
}

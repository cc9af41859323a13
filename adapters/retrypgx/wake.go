package retrypgx

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// waker wakes a Worker. Commits that notify wait for each other, so when notifications come quickly, it
// takes the lock that has the triggers of retrytable be still, and wakes the Worker again and
// again instead, for a short time.
type waker struct {
	wake  chan<- struct{}
	conn  *pgx.Conn
	heard func(ctx context.Context, n *pgconn.Notification) error // may be nil
	last  time.Time                                               // when a notification came
	still time.Duration                                           // how long the triggers were still
	late  sync.WaitGroup
}

const (
	quickly      = 4 * time.Millisecond // after the last notification
	firstStill   = 20 * time.Millisecond
	longestStill = 160 * time.Millisecond // while notifications go on
	stillTick    = time.Millisecond
	lateTicks    = 5 // after that, for the commits whose triggers were still
)

// tick does not wait: if the Worker has not taken the last value yet, it looks for jobs anyhow.
func (w *waker) tick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waker) notified(ctx context.Context, channel string) error {
	w.tick()
	now := time.Now()
	many := now.Sub(w.last) < quickly
	if w.last = now; !many {
		w.still = 0
		return nil
	}
	w.still = min(max(2*w.still, firstStill), longestStill)
	const lock = "advisory_lock(hashtext('retrytable.Notify'), hashtext($1))"
	var mine bool // or another listener's, which has got the notification too
	if err := w.conn.QueryRow(ctx, "SELECT pg_try_"+lock, channel).Scan(&mine); err != nil {
		return err
	}
	w.ticks(ctx, int(w.still/stillTick))
	if mine {
		if _, err := w.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtext('retrytable.Notify'), hashtext($1))", channel); err != nil {
			return err
		}
	}
	w.late.Go(func() { w.ticks(ctx, lateTicks) })
	w.last = time.Now()
	return w.drain(ctx)
}

// drain hears the notifications that have come, whose jobs the ticks have found or the late ones find.
// With a time of its own for each, the ticks would go on for minutes after a burst.
func (w *waker) drain(ctx context.Context) error {
	at, once := context.WithCancel(ctx)
	once() // so that there is no wait
	for {
		n, _ := w.conn.WaitForNotification(at)
		if n == nil {
			return nil
		}
		if w.heard == nil {
			continue
		}
		if err := w.heard(ctx, n); err != nil {
			return err
		}
	}
}

func (w *waker) ticks(ctx context.Context, n int) {
	ticker := time.NewTicker(stillTick)
	defer ticker.Stop()
	for range n {
		select {
		case <-ticker.C:
			w.tick()
		case <-ctx.Done():
			return
		}
	}
}

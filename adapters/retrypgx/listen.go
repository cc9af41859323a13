package retrypgx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// Listener says what [Listen] listens to, and what it does with notifications. All
// functions run on the goroutine of Listen; while they run, nothing is heard.
type Listener struct {
	// Connect makes a connection, such as pgx.Connect. Listen closes it.
	Connect func(ctx context.Context) (*pgx.Conn, error)

	// Channels are the channels to listen to.
	Channels []string

	// Listening, if not nil, is called when a connection listens: the first one, and each
	// one after a loss. Notifications before that are missed, so look for new data in this
	// function. An error ends the connection, and is classified like any other error.
	Listening func(ctx context.Context, conn *pgx.Conn) error

	// Notified, if not nil, is called for each notification. An error ends the connection too.
	Notified func(ctx context.Context, n *pgconn.Notification) error

	// Wake, if not nil, gets a value when there may be jobs: for each notification, when a
	// connection listens, and every millisecond while many notifications come. It is for
	// the Wake of a retrytable.Worker whose Table has a Notify. It should have a buffer of 1: Listen does
	// not wait for the Worker.
	Wake chan<- struct{}
}

var errListener = errors.New("retrypgx: a Listener needs Connect, Channels, and Notified or Wake")

// Listen listens until ctx ends or the policy gives up, and returns the reason, which is
// never nil. A connection that has listened before it was lost is progress: the counts and
// the waits of p begin anew. So a policy with a MaxAttempts of retry.Unlimited waits for
// the database however long that takes, and a policy with few attempts gives up if it
// does not come back. Do not set AttemptTimeout and Timeout of p here: they end a
// connection that listens. A nil p is the zero Policy.
//
// Errors that retrysql.Classify does not know are Final, as in [InTx].
func Listen(ctx context.Context, p *retry.Policy, l Listener) error {
	if l.Connect == nil || l.Notified == nil && l.Wake == nil || len(l.Channels) == 0 {
		return errListener
	}
	call := retry.Call{Policy: p, Protocol: retrysql.Classify, Unknown: retry.Final}
	defer call.Abort()
	for call.Next(ctx) {
		call.End(l.listen(call.Context()))
	}
	return call.Err()
}

// closeGrace bounds how long the end of a connection may take.
const closeGrace = time.Second

// listen listens on one connection until it fails.
func (l *Listener) listen(ctx context.Context) error {
	conn, err := l.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		_ = conn.Close(ctx) // lost anyway
	}()
	for _, channel := range l.Channels {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
	}
	if l.Listening != nil {
		if err := l.Listening(ctx, conn); err != nil {
			return err
		}
	}
	wakes := waker{wake: l.Wake, conn: conn, heard: l.Notified}
	defer wakes.late.Wait()
	wakes.tick()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err == nil && l.Notified != nil {
			err = l.Notified(ctx, n)
		}
		if err == nil && l.Wake != nil {
			err = wakes.notified(ctx, n.Channel)
		}
		if err != nil {
			return retry.MarkProgress(err)
		}
	}
}

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
	lockTries    = 5
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
	mine := false // it is another listener's, which has got the notification too, or for a moment a trigger's
	for tries := lockTries; tries > 0 && !mine; tries-- {
		if err := w.conn.QueryRow(ctx, "SELECT pg_try_"+lock, channel).Scan(&mine); err != nil {
			return err
		}
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

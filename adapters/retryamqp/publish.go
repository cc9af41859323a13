package retryamqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry/internal/engine"
)

const (
	// patience is how long a request to the broker may take.
	patience = time.Minute

	// A wait queue goes when it was not declared for as long as its messages wait and
	// idle more. It is declared again before half of idle has passed.
	idle = time.Minute

	// maxWait is the longest time of a wait queue, in milliseconds. Longer waits are
	// made of several.
	maxWait = 1 << 31
)

// queue is where a copy goes.
type queue struct {
	name string
	args amqp.Table
}

// dead is the queue of messages that were given up.
func (r *Retries) dead() queue { return queue{name: cmp.Or(r.Dead, r.Queue+".dead")} }

// waiting is the queue whose messages come back after a delay, which is rounded up to an
// eighth of the power of two below it, in milliseconds.
func (r *Retries) waiting(delay time.Duration) queue {
	ms := min(uint64(max(engine.Ceil(delay, time.Millisecond)/time.Millisecond, 1)), maxWait)
	unit := uint64(1) << max(bits.Len64(ms)-4, 0)
	rounded := int64((ms + unit - 1) / unit * unit) //nolint:gosec // at most maxWait
	return queue{r.Queue + ".wait." + strconv.FormatInt(rounded, 10), amqp.Table{
		"x-message-ttl": rounded, "x-expires": rounded + idle.Milliseconds(),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.Queue,
	}}
}

// open opens the channel of r and declares the dead queue, unless an earlier call has.
func (r *Retries) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return amqp.ErrClosed
	case r.channel != nil:
		return nil
	}
	if err := r.Validate(); err != nil {
		return err
	}
	channel, err := r.Conn.Channel()
	if err != nil {
		return err
	}
	if _, err = channel.QueueDeclarePassive(r.Queue, true, false, false, false, nil); err == nil {
		_, err = channel.QueueDeclare(r.dead().name, true, false, false, false, nil)
	}
	if err = cmp.Or(err, channel.Confirm(false)); err != nil {
		_ = channel.Close()
		return err
	}
	r.channel, r.declared = channel, map[string]time.Time{r.dead().name: time.Now()}
	r.seen, r.over = make(chan struct{}), make(chan struct{})
	go r.watch(channel.NotifyReturn(make(chan amqp.Return)))
	return nil
}

// counts reports whether the queue is known to set x-delivery-count: on another queue, the
// header is what the publisher says. The broker tells the type of a queue only by refusing to
// declare it with another one. It also refuses if the queue has more arguments.
func (r *Retries) counts() bool {
	r.ask.Do(func() {
		_ = r.answered(func() error {
			channel, err := r.Conn.Channel()
			if err != nil {
				return err
			}
			_, err = channel.QueueDeclare(r.Queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			r.counted = err == nil
			return errors.Join(err, channel.Close())
		})
	})
	return r.counted
}

// watch notes what comes back, until the channel is closed.
func (r *Retries) watch(returns <-chan amqp.Return) {
	defer close(r.over)
	for {
		select {
		case copied, open := <-returns:
			if !open {
				return
			}
			r.returned.Store(copied.Headers[copyHeader], nil)
		case <-r.seen:
		}
	}
}

// publish publishes a copy of a message, and acknowledges the message when a queue has the
// copy. The broker confirms a copy that it has no queue for, too, after it has returned it.
func (r *Retries) publish(ctx context.Context, to queue, msg *amqp.Delivery, copied amqp.Publishing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for range 2 { // a queue of ours may be gone although it was declared a moment ago
		confirmed, number, err := r.send(to, copied)
		if err != nil {
			return err
		}
		if ok, err := confirmed.WaitContext(ctx); err != nil || !ok {
			r.returned.Delete(number)
			return errors.Join(fmt.Errorf("the broker has not confirmed the copy in %s", to.name), err)
		}
		// The library gives returns to watch before it reads the confirmation, so they
		// are noted when watch takes this.
		select {
		case r.seen <- struct{}{}:
		case <-r.over:
		}
		if _, back := r.returned.LoadAndDelete(number); !back {
			return r.answered(func() error { return msg.Ack(false) })
		}
		r.mu.Lock()
		delete(r.declared, to.name)
		r.mu.Unlock()
	}
	return fmt.Errorf("there is no queue %s", to.name)
}

// send sends a copy to a queue, which it declares if that is due.
func (r *Retries) send(to queue, copied amqp.Publishing) (confirmed *amqp.DeferredConfirmation, number int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies++
	if copied.Headers[copyHeader] = r.copies; r.room(&copied) < 0 { // it is not known if it is returned
		delete(copied.Headers, copyHeader)
		delete(r.declared, to.name)
	}
	err = r.answered(func() error {
		if to.name != r.Queue && time.Since(r.declared[to.name]) >= idle/2 {
			if _, err := r.channel.QueueDeclare(to.name, true, false, false, false, to.args); err != nil {
				return err
			}
			r.declared[to.name] = time.Now()
		}
		confirmed, err = r.channel.PublishWithDeferredConfirm("", to.name, true, false, copied)
		return err
	})
	return confirmed, r.copies, err
}

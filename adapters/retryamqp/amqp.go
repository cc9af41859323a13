package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// Retries handles the messages of a queue under a policy. A literal with a Conn and a Queue
// is ready to use. It is safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the Type of the
	// message: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one. A
	// message of a kind without a policy comes again after a second.
	PolicyFor func(kind string) (*retry.Policy, error)

	Conn  *amqp.Connection // r opens a channel of its own
	Queue string           // has to exist
	Dead  string           // for messages that are given up; r declares it; empty means Queue and ".dead"

	// The library sends a message as several frames, and another method of the channel
	// in the middle of them ends the connection. So mu is held while anything is sent.
	mu       sync.Mutex
	channel  *amqp.Channel
	closed   bool
	declared map[string]time.Time // queues
	copies   int64

	ask     sync.Once
	counted bool // the queue counts deliveries

	returned sync.Map      // the numbers of the copies that came back
	seen     chan struct{} // taken by watch between two returns
	over     chan struct{} // closed when watch has seen the last return
}

// Validate reports what is wrong with the fields. Handle calls it until it has found nothing.
func (r *Retries) Validate() error {
	if r.Conn == nil || r.Queue == "" {
		return errors.New("the connection is nil, or the queue has no name")
	}
	return r.Policy.Validate()
}

// Close closes the channel of r.
func (r *Retries) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed = true; r.channel == nil {
		return nil
	}
	return r.channel.Close()
}

// Handle runs fn for a message, and tells the broker what follows. ctx ends with the
// process; fn gets a child of it. The error says that no policy is known for the message, that
// the broker could not be told, or that the Observer has panicked. Unless the broker has been
// told, the message then comes again: at once, or, if r has no open channel, when the channel
// of the message is closed.
func (r *Retries) Handle(ctx context.Context, msg amqp.Delivery, fn func(context.Context) error) (err error) {
	if err := r.answered(r.open); err != nil {
		return fmt.Errorf("retryamqp: %s: %w", r.Queue, err)
	}
	err = errors.New("the function has called runtime.Goexit") // unless Handle returns
	var missing error
	d := &delivery{Delivery: msg, job: retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: msg.Type}}
	defer func() {
		switch {
		case err == nil:
			err = d.job.Tell(ctx)
		case !r.channel.IsClosed():
			err = errors.Join(err, r.answered(func() error { return msg.Nack(false, true) }))
		}
		if err = errors.Join(missing, err); err != nil {
			err = fmt.Errorf("retryamqp: %s: %w", r.Queue, err)
		}
	}()
	reason := d.read()
	delay := d.job.Early(time.Until(d.due))
	if reason == nil && d.Headers[expiresHeader] != nil {
		reason = d.expired(delay)
	}
	if reason == nil && delay == 0 {
		switch r.attempt(ctx, d, fn) {
		case retryjob.Done:
			return r.answered(func() error { return msg.Ack(false) })
		case retryjob.Ended:
			reason = d.job.Decision.Err
		case retryjob.Refused:
			missing = d.job.Err
		case retryjob.Again, retryjob.Handed:
		}
		if delay = d.job.Decision.Delay; reason == nil {
			reason = d.expired(delay)
		}
	}
	return r.move(ctx, d, delay, reason)
}

// answered makes a request. The library's requests have no deadline, and without heartbeats it
// would wait for a broker that is silent for ever: then the connection is closed.
func (r *Retries) answered(request func() error) error {
	silent := time.AfterFunc(patience, func() {
		if r.Conn != nil {
			_ = r.Conn.CloseDeadline(time.Now())
		}
	})
	defer silent.Stop()
	return request()
}

// attempt makes the attempt. A message that the broker delivers again has lost one, or as many
// as a quorum queue says. Where the queue does not count, a copy waits with the lost attempt in
// its State, so that the message is acknowledged before the next crash.
func (r *Retries) attempt(ctx context.Context, d *delivery, fn func(context.Context) error) retryjob.Outcome {
	if d.Redelivered {
		count, _ := d.Headers["x-delivery-count"].(int64)
		d.job.Lost += int(min(max(count, 1), math.MaxInt32-1))
		if count <= 0 || !r.counts() {
			stopped, cancel := context.WithCancel(ctx)
			cancel()
			ctx = stopped
		}
	}
	return d.job.Attempt(ctx, fn)
}

// expired returns why the message is worth nothing at its next attempt.
func (d *delivery) expired(delay time.Duration) error {
	left := time.Until(d.expires).Truncate(time.Millisecond)
	if d.expires.IsZero() || left > 0 && delay < left {
		return nil
	}
	return because(fmt.Sprintf("the message expires %v before its next attempt", delay-left), d.job.Err)
}

// because adds the error of the attempt, if there was one.
func because(reason string, err error) error {
	if err == nil {
		return errors.New(reason)
	}
	return fmt.Errorf("%s: %w", reason, err)
}

// move publishes a copy of a message that comes again after a delay, or that was given up
// for a reason. A message that was given up goes without its State, so that it begins anew
// if somebody moves it back.
func (r *Retries) move(ctx context.Context, d *delivery, delay time.Duration, reason error) error {
	copied, to := r.copied(&d.Delivery), r.dead()
	if reason == nil {
		if err := d.write(copied.Headers, delay); err != nil {
			return err
		}
		switch {
		case r.room(&copied) < 0:
			copied = r.copied(&d.Delivery)
			reason = because("the headers of the message leave no room for its State", d.job.Err)
		case delay > 0:
			to = r.waiting(delay)
		case !d.expires.IsZero():
			copied.Expiration = strconv.FormatInt(max(time.Until(d.expires).Milliseconds(), 0), 10)
			fallthrough
		default:
			to = queue{name: r.Queue}
		}
	}
	if reason != nil {
		d.job.End(reason)
		r.explain(&copied, reason)
	}
	return r.publish(ctx, to, &d.Delivery, copied)
}

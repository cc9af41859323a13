package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
)

const (
	stateHeader = "retry-state"
	dueHeader   = "retry-due"
	errorHeader = "retry-error"

	// handover is how long a message waits that a shutdown sends back. A redelivery at
	// once might go to the client that is going away, and would be lost there.
	handover = time.Second

	// A wait queue goes when it was not declared for as long as its messages wait and
	// idle more. It is declared again before half of idle has passed.
	idle = time.Minute

	// maxWait is the longest time of a wait queue, in milliseconds. Longer waits are
	// made of several.
	maxWait = 1 << 31
)

// Retries handles the messages of a queue under a policy. Make one with [New]. It is
// safe for concurrent use.
type Retries struct {
	policy  *retry.Policy
	queue   string
	channel *amqp.Channel

	mu       sync.Mutex
	declared map[string]time.Time
}

// New returns the Retries of p for the messages of a queue that exists; nil means the
// zero Policy. It opens a channel of its own, and declares the queue for messages that
// are given up. The error says what is wrong with p, or what the broker says.
func New(conn *amqp.Connection, queue string, p *retry.Policy) (*Retries, error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retryamqp: %w", err)
	}
	if conn == nil || queue == "" {
		return nil, errors.New("retryamqp: the connection is nil, or the queue has no name")
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("retryamqp: %w", err)
	}
	r := &Retries{policy: p, queue: queue, channel: channel, declared: map[string]time.Time{}}
	if err := r.prepare(); err != nil {
		_ = channel.Close()
		return nil, fmt.Errorf("retryamqp: %s: %w", queue, err)
	}
	return r, nil
}

func (r *Retries) prepare() error {
	if _, err := r.channel.QueueDeclarePassive(r.queue, true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := r.channel.QueueDeclare(r.queue+".dead", true, false, false, false, nil); err != nil {
		return err
	}
	return r.channel.Confirm(false)
}

// Close closes the channel of r.
func (r *Retries) Close() error { return r.channel.Close() }

// Handle runs fn for a message, and tells the broker what follows. ctx ends with the
// process; fn gets a child of it. The error says that the broker could not be told; the
// message then comes again.
func (r *Retries) Handle(ctx context.Context, msg amqp.Delivery, fn func(context.Context) error) error {
	d := &delivery{Retries: r, msg: msg}
	if err := d.handle(ctx, fn); err != nil {
		return fmt.Errorf("retryamqp: %s: %w", r.queue, errors.Join(err, msg.Nack(false, true)))
	}
	return nil
}

// delivery is one delivery of a message.
type delivery struct {
	*Retries

	msg  amqp.Delivery
	call retry.Call
}

func (d *delivery) handle(ctx context.Context, fn func(context.Context) error) error {
	s, err := stateOf(d.msg.Headers)
	if err != nil {
		return d.end(ctx, s, err)
	}
	now := d.policy.Now()
	if due, ok := d.msg.Headers[dueHeader].(int64); ok && time.UnixMilli(due).After(now) {
		return d.wait(ctx, s, time.UnixMilli(due).Sub(now))
	}
	count, counted := d.msg.Headers["x-delivery-count"].(int64)
	s.Failures += int(count)
	if d.msg.Redelivered && !counted {
		s.Failures++
	}
	d.call = retry.Call{Policy: d.policy, State: s}
	if over, exhausted := d.call.Exhausted(ctx); exhausted {
		return d.end(ctx, s, over.Err)
	}
	if d.msg.Redelivered && !counted {
		// The copy knows of the failure. It waits so that the message is acknowledged
		// before the next crash.
		return d.wait(ctx, s, handover)
	}
	if ctx.Err() != nil || !d.call.Begin(ctx) {
		return d.wait(ctx, s, handover)
	}
	return d.after(ctx, d.run(fn)) //nolint:contextcheck // of the attempt, a child of ctx
}

// stateOf reads the State of a message.
func stateOf(headers amqp.Table) (s retry.State, err error) {
	text, _ := headers[stateHeader].(string)
	if err = s.UnmarshalText([]byte(text)); err != nil {
		err = fmt.Errorf("%s: %w", stateHeader, err)
	}
	return s, err
}

// run runs fn. A panic is an error that ends the message.
func (d *delivery) run(fn func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()))
		}
	}()
	return fn(d.call.Context())
}

// after decides what follows.
func (d *delivery) after(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		d.call.Abort()
		if !d.policy.NonIdempotent {
			return d.wait(ctx, d.call.State, handover)
		}
		d.call.Begin(context.WithoutCancel(ctx))
	}
	switch what := d.call.End(err); {
	case what.Retry:
		return d.wait(ctx, what.State, what.Delay)
	case what.Err != nil:
		return d.end(ctx, what.State, what.Err)
	default:
		return d.msg.Ack(false)
	}
}

// wait has the message delivered again after a delay.
func (d *delivery) wait(ctx context.Context, s retry.State, delay time.Duration) error {
	headers, queue := amqp.Table{}, d.queue
	if delay > 0 {
		headers[dueHeader] = d.policy.Now().Add(delay + time.Millisecond - 1).UnixMilli()
		var err error
		if queue, err = d.waitQueue(rounded(delay)); err != nil {
			return err
		}
	}
	return d.move(ctx, queue, s, headers)
}

// rounded returns the time of the wait queue for a delay, in milliseconds: rounded up to
// an eighth of the power of two below it.
func rounded(delay time.Duration) int64 {
	ms := min(uint64(max(delay, 1)-1)/uint64(time.Millisecond)+1, maxWait)
	unit := uint64(1) << max(bits.Len64(ms)-4, 0)
	return int64((ms + unit - 1) / unit * unit) //nolint:gosec // at most maxWait
}

// waitQueue declares the queue whose messages come back after so many milliseconds.
func (r *Retries) waitQueue(ms int64) (string, error) {
	name := r.queue + ".wait." + strconv.FormatInt(ms, 10)
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.declared[name]) < idle/2 {
		return name, nil
	}
	_, err := r.channel.QueueDeclare(name, true, false, false, false, amqp.Table{
		"x-message-ttl": ms, "x-expires": ms + idle.Milliseconds(),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.queue,
	})
	if err == nil {
		r.declared[name] = time.Now()
	}
	return name, err
}

// end moves the message to the queue of those that were given up.
func (d *delivery) end(ctx context.Context, s retry.State, reason error) error {
	return d.move(ctx, d.queue+".dead", s, amqp.Table{errorHeader: reason.Error()})
}

// move publishes a copy, and acknowledges the message when the broker has the copy.
func (d *delivery) move(ctx context.Context, queue string, s retry.State, headers amqp.Table) error {
	text, err := s.MarshalText()
	if err != nil {
		return err
	}
	headers[stateHeader] = string(text)
	for name, value := range d.msg.Headers {
		if !strings.HasPrefix(name, "x-") && !strings.HasPrefix(name, "retry-") {
			headers[name] = value
		}
	}
	m := &d.msg
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	confirmed, err := d.channel.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
		Headers: headers, Body: m.Body, DeliveryMode: amqp.Persistent, ContentType: m.ContentType,
		ContentEncoding: m.ContentEncoding, Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo,
		MessageId: m.MessageId, Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId,
	})
	if err != nil {
		return err
	}
	if ok, err := confirmed.WaitContext(ctx); err != nil || !ok {
		return errors.Join(fmt.Errorf("the broker has not confirmed the copy in %s", queue), err)
	}
	return d.msg.Ack(false)
}

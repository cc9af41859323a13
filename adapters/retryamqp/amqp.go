package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
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

	// maxError is how much of an error's text goes into a header: all headers share a
	// frame, and the broker closes the connection of a client whose frame is too long.
	maxError = 8 << 10
)

// Retries handles the messages of a queue under a policy. Make one with [New]. It is
// safe for concurrent use.
type Retries struct {
	policy *retry.Policy
	queue  string
	copies *publisher
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
	copies, err := newPublisher(conn)
	if err != nil {
		return nil, fmt.Errorf("retryamqp: %w", err)
	}
	r := &Retries{policy: p, queue: queue, copies: copies}
	if err := r.prepare(); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("retryamqp: %s: %w", queue, err)
	}
	return r, nil
}

func (r *Retries) prepare() error {
	if _, err := r.copies.channel.QueueDeclarePassive(r.queue, true, false, false, false, nil); err != nil {
		return err
	}
	return r.copies.declare(r.dead())
}

// Close closes the channel of r.
func (r *Retries) Close() error { return r.copies.close() }

// Handle runs fn for a message, and tells the broker what follows. ctx ends with the
// process; fn gets a child of it. The error says that the broker could not be told. The
// message then comes again: at once, or if the channel of r is closed, so that nothing
// can be told any more, when that of the message is closed.
func (r *Retries) Handle(ctx context.Context, msg amqp.Delivery, fn func(context.Context) error) error {
	d := &delivery{Retries: r, msg: msg}
	err := d.handle(ctx, fn)
	if err == nil {
		return nil
	}
	if !r.copies.channel.IsClosed() {
		err = errors.Join(err, msg.Nack(false, true))
	}
	return fmt.Errorf("retryamqp: %s: %w", r.queue, err)
}

// delivery is one delivery of a message.
type delivery struct {
	*Retries

	msg  amqp.Delivery
	call retry.Call
}

func (d *delivery) handle(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // of a function of the policy
			err = d.end(ctx, panicked(r))
		}
	}()
	s, err := stateOf(d.msg.Headers)
	if err != nil {
		return d.end(ctx, err)
	}
	now := d.policy.Now()
	if due, ok := d.msg.Headers[dueHeader].(int64); ok && time.UnixMilli(due).After(now) {
		return d.wait(ctx, s, time.UnixMilli(due).Sub(now))
	}
	count, counted := d.msg.Headers["x-delivery-count"].(int64)
	again := d.msg.Redelivered && !counted
	if again {
		count = 1
	}
	d.call = retry.Call{Policy: d.policy, State: s, Stored: true}
	if over, exhausted := d.call.Lost(ctx, int(count)); exhausted {
		return d.end(ctx, over.Err)
	}
	if again {
		// The copy knows of the failure. It waits so that the message is acknowledged
		// before the next crash.
		return d.wait(ctx, d.call.State, handover)
	}
	if !d.call.Begin(ctx) {
		return d.wait(ctx, d.call.State, handover)
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
			err = retry.MarkFinal(panicked(r))
		}
	}()
	return fn(d.call.Context())
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// after decides what follows.
func (d *delivery) after(ctx context.Context, err error) error {
	if d.call.Interrupted(err) {
		return d.wait(ctx, d.call.State, handover)
	}
	switch what := d.call.End(err); {
	case what.Retry:
		return d.wait(ctx, what.State, what.Delay)
	case what.Err != nil:
		return d.end(ctx, what.Err)
	default:
		return d.msg.Ack(false)
	}
}

// wait has the message delivered again after a delay.
func (d *delivery) wait(ctx context.Context, s retry.State, delay time.Duration) error {
	text, err := s.MarshalText()
	if err != nil {
		return err
	}
	headers, to := amqp.Table{stateHeader: string(text)}, queue{name: d.queue}
	if delay > 0 {
		headers[dueHeader] = d.policy.Now().Add(delay + time.Millisecond - 1).UnixMilli()
		to = d.waiting(rounded(delay))
	}
	return d.move(ctx, to, headers)
}

// end moves the message to the queue of those that were given up. It goes without its
// State, so that it begins anew if somebody moves it back.
func (d *delivery) end(ctx context.Context, reason error) error {
	text := reason.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	return d.move(ctx, d.dead(), amqp.Table{errorHeader: text})
}

// move publishes a copy, and acknowledges the message when a queue has the copy.
func (d *delivery) move(ctx context.Context, to queue, headers amqp.Table) error {
	for name, value := range d.msg.Headers {
		if !brokers(name) && !strings.HasPrefix(name, "retry-") {
			headers[name] = value
		}
	}
	m := &d.msg
	if err := d.copies.publish(ctx, to, amqp.Publishing{
		Headers: headers, Body: m.Body, DeliveryMode: amqp.Persistent, ContentType: m.ContentType,
		ContentEncoding: m.ContentEncoding, Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo,
		MessageId: m.MessageId, Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId,
	}); err != nil {
		return err
	}
	return m.Ack(false)
}

// brokers reports whether a header is the broker's: what it says of one delivery, and
// the further queues that the first publisher wanted.
func brokers(header string) bool {
	return strings.HasPrefix(header, "x-") || header == "CC" || header == "BCC"
}

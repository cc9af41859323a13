package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
)

const (
	stateHeader = "retry-state"
	lostHeader  = "retry-lost" // the number of attempts that the State does not have
	dueHeader   = "retry-due"
	errorHeader = "retry-error"

	// maxError is how much of an error's text goes into a header: all headers share a
	// frame, and the broker closes the connection of a client whose frame is too long.
	maxError = 8 << 10
)

// Retries handles the messages of a queue under a policy. A literal with a Conn and a Queue
// is ready to use. It is safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the Type of the
	// message: see [retry.Policy.For]. The method Get of a retrypolicies.Policies is one. A
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

	returned sync.Map      // the numbers of the copies that came back
	seen     chan struct{} // taken by watch between two returns
	over     chan struct{} // closed when watch has seen the last return
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
// process; fn gets a child of it. The error says that there is no policy for the message, or
// that the broker could not be told. The message then comes again: at once, or, if r has no
// open channel, when the channel of the message is closed.
func (r *Retries) Handle(ctx context.Context, msg amqp.Delivery, fn func(context.Context) error) (err error) {
	if err := r.open(); err != nil {
		return fmt.Errorf("retryamqp: %s: %w", r.Queue, err)
	}
	err = errors.New("the function has called runtime.Goexit") // unless Handle returns
	var missing error
	defer func() {
		if err != nil && !r.channel.IsClosed() {
			err = errors.Join(err, msg.Nack(false, true))
		}
		if err = errors.Join(missing, err); err != nil {
			err = fmt.Errorf("retryamqp: %s: %w", r.Queue, err)
		}
	}()
	job := retry.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: msg.Type}
	text, _ := msg.Headers[stateHeader].(string)
	reason := job.State.UnmarshalText([]byte(text))
	if reason != nil {
		reason = fmt.Errorf("%s: %w", stateHeader, reason)
	}
	lost, _ := msg.Headers[lostHeader].(int64)
	job.Lost = int(lost)
	due, _ := msg.Headers[dueHeader].(int64)
	delay := time.Until(time.UnixMilli(due))
	if reason == nil && delay <= 0 {
		count, counted := msg.Headers["x-delivery-count"].(int64)
		job.Lost += int(count)
		if msg.Redelivered && !counted {
			// A copy with this attempt counted waits, so that the message is acknowledged
			// before the next crash.
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
			job.Lost++
		}
		switch outcome := job.Attempt(ctx, fn); {
		case outcome == retry.Done:
			return msg.Ack(false)
		case outcome == retry.Ended:
			reason = job.Decision.Err
		case outcome == retry.Handed && ctx.Err() == nil: // there is no policy
			missing = job.Err
		}
		delay = job.Decision.Delay
	}
	return r.move(ctx, &msg, &job, delay, reason)
}

// move publishes a copy of a message that comes again after a delay, or that was given up
// for a reason. A message that was given up goes without its State, so that it begins anew
// if somebody moves it back.
func (r *Retries) move(ctx context.Context, msg *amqp.Delivery, job *retry.Stored, delay time.Duration, reason error) error {
	headers, to := amqp.Table{}, queue{name: r.Queue}
	for name, value := range msg.Headers {
		// Not the broker's, and no further queues that the first publisher wanted.
		if !strings.HasPrefix(name, "x-") && name != "CC" && name != "BCC" && !strings.HasPrefix(name, "retry-") {
			headers[name] = value
		}
	}
	if reason != nil {
		text := reason.Error()
		headers[errorHeader] = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
		to = r.dead()
	} else {
		text, err := job.State.MarshalText()
		if err != nil {
			return err
		}
		headers[stateHeader] = string(text)
		if job.Lost > 0 {
			headers[lostHeader] = int64(job.Lost)
		}
		if delay > 0 {
			headers[dueHeader] = time.Now().Add(delay + time.Millisecond - 1).UnixMilli()
			to = r.waiting(delay)
		}
	}
	return r.publish(ctx, to, msg, amqp.Publishing{
		Headers: headers, Body: msg.Body, DeliveryMode: amqp.Persistent, ContentType: msg.ContentType,
		ContentEncoding: msg.ContentEncoding, Priority: msg.Priority, CorrelationId: msg.CorrelationId,
		ReplyTo: msg.ReplyTo, MessageId: msg.MessageId, Timestamp: msg.Timestamp, Type: msg.Type, AppId: msg.AppId,
	})
}

package retrywatermill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// Retries handles messages under a policy. A literal with a Publisher is ready to use. It is
// safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the topic of the
	// message: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one. A
	// message of a kind without a policy comes again after a second.
	PolicyFor func(kind string) (*retry.Policy, error)

	// Publisher publishes to the broker that the router subscribes to.
	Publisher message.Publisher

	// Poison is the topic for messages that are given up. Empty means the topic of the
	// message and "_poison".
	Poison string

	// Hold is how long a message that waits is kept in memory, and its subscriber with it,
	// until it is published again. 0 means 1 second. It has to be shorter than the time
	// after which the subscriber takes a worker for dead.
	Hold time.Duration

	// Delayed, if not nil, publishes to a broker that heeds Watermill's delays, for waits
	// that are longer than Hold. Something has to move the messages back from DelayedTopic,
	// if that is not empty. Otherwise Delayed publishes to the topic of the message.
	Delayed      message.Publisher
	DelayedTopic string

	// Lost, if not nil, says how many deliveries of the message have ended without an
	// answer, this one not included: attempts whose workers died.
	Lost func(msg *message.Message) int

	// Logger is told of messages without a policy, and of poisoned ones without room for
	// the reason. nil means that nobody is.
	Logger watermill.LoggerAdapter

	begin sync.Once
	fault error // of the fields

	mu       sync.Mutex
	closed   bool
	stopping context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Validate reports what is wrong with the fields. Middleware calls it at the first message.
func (r *Retries) Validate() error {
	switch {
	case r.Publisher == nil:
		return errors.New("the Publisher is nil")
	case r.Hold < 0:
		return fmt.Errorf("the Hold is %v: must not be negative", r.Hold)
	case r.Delayed == nil && r.DelayedTopic != "":
		return fmt.Errorf("the DelayedTopic is %s, and Delayed is nil", r.DelayedTopic)
	}
	return r.Policy.Validate()
}

func (r *Retries) hold() time.Duration { return cmp.Or(r.Hold, time.Second) }

// Middleware is the middleware of a router, or of a handler. It acknowledges a message when
// it has succeeded, or when the broker has what follows. An error says that there is no such
// message for the broker, or that a field is wrong. The message then comes again, after a
// second at the soonest, with the attempt not counted.
func (r *Retries) Middleware(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (produced []*message.Message, err error) {
		ctx := msg.Context()
		d := &delivery{
			Retries: r, msg: msg, next: next, ctx: ctx,
			topic: message.SubscribeTopicFromCtx(ctx), handler: message.HandlerNameFromCtx(ctx),
		}
		if of := msg.Metadata.Get(handlerKey); of != "" && of != d.handler {
			return nil, nil // a copy for another subscriber of the topic, which gets it too
		}
		returned := false
		defer func() {
			if !returned { // after runtime.Goexit
				msg.Nack()
			}
		}()
		err = d.handle()
		if returned = true; err != nil {
			return nil, fmt.Errorf("retrywatermill: %s: %w", d.topic, err)
		}
		return d.produced, nil
	}
}

// delivery is one delivery of a message.
type delivery struct {
	*Retries

	msg            *message.Message
	next           message.HandlerFunc
	ctx            context.Context // ends when the subscriber is done with the message
	topic, handler string
	produced       []*message.Message
}

func (d *delivery) handle() (err error) {
	attempt, end := d.start()
	if attempt == nil { // the router will be closed
		engine.Wait(d.ctx, d.hold())
		return context.Canceled
	}
	defer end()
	err = errors.New("the handler has called runtime.Goexit") // unless handle returns
	defer func() {
		if err == nil && d.ctx.Done() != nil {
			context.AfterFunc(d.ctx, d.running.Done) // the subscriber has told the broker
		} else {
			d.running.Done()
		}
	}()
	d.begin.Do(func() { d.fault = d.Validate() })
	err = d.fault
	if err == nil && d.topic == "" {
		err = errors.New("the message is not one of a router")
	}
	if err == nil {
		err = d.attempts(attempt)
	}
	if err != nil {
		engine.Wait(attempt, time.Second)
	}
	return err
}

// attempts makes an attempt and publishes what follows. If the broker refuses the copy, the
// next attempts are made in its place, for as long as the message may be held. ctx ends with
// the delivery, or with Close.
func (d *delivery) attempts(ctx context.Context) error {
	patience, lost := time.Now().Add(d.hold()), 0
	if d.Lost != nil {
		lost = d.Lost(d.msg)
	}
	for {
		job, due, err := d.attempt(ctx, lost)
		late := due.After(patience) || time.Now().After(patience)
		inPlace := err != nil && ctx.Err() == nil && !due.IsZero() && !late
		if err == nil || inPlace {
			engine.Tell(ctx, job)
		}
		if !inPlace {
			return err
		}
		lost = 0 // they are in the State
	}
}

// attempt makes the attempt, unless it is too early. due is when the next one is, if its copy
// could not be published.
func (d *delivery) attempt(ctx context.Context, lost int) (job *retryjob.Stored, due time.Time, err error) {
	job = &retryjob.Stored{Policy: d.Policy, PolicyFor: d.PolicyFor, Kind: d.topic}
	due, reason := engine.Load(d.msg.Metadata.Get, job)
	d.msg.UUID = cmp.Or(d.msg.Metadata.Get(uuidKey), d.msg.UUID)
	due = time.Now().Add(job.Early(time.Until(due)))
	engine.Wait(ctx, min(time.Until(due), d.hold()))
	delay := time.Until(due)
	if reason == nil && delay <= 0 {
		job.Lost += max(lost, 0)
		outcome := job.Attempt(ctx, func(ctx context.Context) (err error) {
			defer d.msg.SetContext(d.ctx)
			d.msg.SetContext(ctx)
			// What the handler publishes with them would be taken for a copy for another handler, too.
			defer maps.Copy(d.msg.Metadata, engine.Take(d.msg.Metadata, handlerKey, uuidKey))
			d.produced, err = d.next(d.msg)
			return err
		})
		switch {
		case outcome == retryjob.Done:
			return job, time.Time{}, nil // the router tells the broker
		case outcome == retryjob.Ended:
			reason = job.Decision.Err
		case outcome == retryjob.Refused && d.Logger != nil:
			d.Logger.Error("retrywatermill: the message comes again", job.Err, watermill.LogFields{"message_uuid": d.msg.UUID})
		}
		d.produced, delay = nil, job.Decision.Delay
	}
	if d.ctx.Err() != nil {
		return job, time.Time{}, fmt.Errorf("the subscriber no longer waits for an answer: %w", errors.Join(context.Cause(d.ctx), job.Err))
	}
	due, err = d.note(job, delay)
	out, end := d.outgoing()
	defer end()
	if reason = cmp.Or(reason, err); reason != nil {
		job.End(reason)
		return job, time.Time{}, d.poison(out, reason)
	}
	return job, due, d.again(out, due, delay)
}

// start returns the context of an attempt, or nil after Close.
func (d *delivery) start() (context.Context, context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil
	}
	if d.stop == nil {
		d.stopping, d.stop = context.WithCancel(context.Background())
	}
	d.running.Add(1)
	ctx, cancel := context.WithCancel(d.ctx)
	forget := context.AfterFunc(d.stopping, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}

// Close ends the attempts in progress as the stop of a worker, and lets no other begin. It
// returns when their subscribers have had the answers, or when ctx is done. Close r before the
// router: a router that is closed leaves the answers of messages in progress alone, and they
// come again. Close a subscriber of SQL in between: it commits after the answer, which a router
// that is closed would cancel.
func (r *Retries) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed = true; r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	over := make(chan struct{})
	go func() {
		r.running.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("retrywatermill: messages are in progress: %w", context.Cause(ctx))
	}
}

package retrypubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The attributes of a copy, besides those of package engine.
const (
	subscriptionKey = "retry-subscription" // whose copy it is

	// maxError is how much of an error's text goes into an attribute.
	maxError = 1024

	// The limits of a message, without what a copy needs of them besides an error's text.
	maxSize, maxAttributes = 10_000_000 - 500, 100 - 4
)

// Retries handles the messages of a subscription under a policy. A literal with a
// Subscription, a Publisher and a Dead is ready to use. It is safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the attribute
	// "type" of the message: see [retryjob.PolicyFor]. The method Get of a
	// retrypolicies.Policies is one. A message of a kind without a policy comes again after a
	// second.
	PolicyFor func(kind string) (*retry.Policy, error)

	Subscription string            // a name for whose copies r handles; it acknowledges the others
	Publisher    *pubsub.Publisher // of copies, to the topic of the subscription
	Dead         *pubsub.Publisher // of messages that are given up

	// Hold is how long a message that waits is kept in memory until it is published again.
	// 0 means 10 minutes. It has to be shorter than MaxExtension of the subscriber.
	Hold time.Duration

	// Overtime is how long Handle keeps a message whose fn goes on after its context has ended. 0
	// means a minute. After that OnError is told, and another delivery goes on: that of a copy, for
	// which the attempt counts as lost, or of the message itself if it must not be copied. What fn
	// returns later is dropped.
	Overtime time.Duration

	// OnError is told, once for a message, that its Overtime is over, and of a message with an
	// ordering key that has no policy or could not start. nil means slog.Default().
	OnError func(ctx context.Context, err error)

	// CountDeliveries says that every delivery that has ended without an answer was an
	// attempt whose worker died. The server counts deliveries if the subscription has a
	// dead-letter policy.
	CountDeliveries bool

	begin sync.Once
	fault error // of the fields
}

// Validate reports what is wrong with the fields. The first Handle calls it.
func (r *Retries) Validate() error {
	switch {
	case r.Publisher == nil || r.Dead == nil:
		return errors.New("the Publisher or Dead is nil")
	case r.Subscription == "":
		return errors.New("the Subscription has no name")
	case r.Hold < 0:
		return fmt.Errorf("the Hold is %v: must not be negative", r.Hold)
	case r.Overtime < 0:
		return fmt.Errorf("the Overtime is %v: must not be negative", r.Overtime)
	}
	return r.Policy.Validate()
}

// Handle runs fn for a message, and tells the server what follows. ctx is that of Receive; fn
// gets a child of it. The error says that a field is wrong, that no policy is known for the
// message, or that the server could not be told; the message then comes again. It may also say
// that the Observer has panicked.
func (r *Retries) Handle(ctx context.Context, msg *pubsub.Message, fn func(context.Context) error) (err error) {
	if of := msg.Attributes[subscriptionKey]; of != "" && r.Subscription != "" && of != r.Subscription {
		return acknowledge(ctx, msg) // a copy for another subscription of the topic, which gets it too
	}
	err = errors.New("the function has called runtime.Goexit") // unless Handle returns
	var missing error
	job := retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: msg.Attributes["type"]}
	defer func() {
		if err == nil {
			err = job.Tell(ctx)
		} else {
			engine.Wait(ctx, time.Second)
			msg.Nack()
		}
		if err = errors.Join(missing, err); err != nil {
			err = fmt.Errorf("retrypubsub: %s: %w", cmp.Or(r.Subscription, msg.ID), err)
		}
	}()
	r.begin.Do(func() { r.fault = r.Validate() })
	if r.fault != nil {
		return r.fault
	}
	due, reason := engine.Load(func(name string) string { return msg.Attributes[name] }, &job)
	early := job.Early(time.Until(due))
	due = time.Now().Add(early)
	engine.Wait(ctx, min(early, cmp.Or(r.Hold, 10*time.Minute)))
	delay := time.Until(due)
	if reason == nil && delay <= 0 {
		if r.CountDeliveries && msg.DeliveryAttempt != nil && early == 0 {
			job.Lost += max(*msg.DeliveryAttempt-1, 0)
		}
		outcome, late := r.attempt(ctx, msg, &job, fn)
		switch {
		case late:
			return errLate
		case outcome == retryjob.Done:
			return acknowledge(ctx, msg)
		case outcome == retryjob.Ended:
			reason = job.Decision.Err
		case inPlace(msg): // and it has lost its State
			return job.Err
		case outcome == retryjob.Refused:
			missing = job.Err
		}
		delay = job.Decision.Delay
	}
	return r.move(ctx, msg, &job, delay, reason)
}

// inPlace reports whether a message is never copied: a copy would come after later messages of
// its ordering key, or be too large.
func inPlace(msg *pubsub.Message) bool { return msg.OrderingKey != "" || room(msg) < 0 }

// room is for how many bytes of an error's text a copy of a message has room. If it is
// negative, there is none for the copy.
func room(msg *pubsub.Message) int {
	if len(msg.Attributes) > maxAttributes {
		return -1
	}
	n := maxSize - len(msg.Data)
	for key, value := range msg.Attributes {
		n -= len(key) + len(value) + 8 // at most, of its encoding
	}
	return n
}

// errLate is the error of a message whose fn has returned after its Overtime.
var errLate = errors.New("the function has returned when another delivery had gone on")

// attempt makes the attempt, and those that follow if they are made in place. late says that
// another delivery goes on.
func (r *Retries) attempt(
	ctx context.Context, msg *pubsub.Message, job *retryjob.Stored, fn func(context.Context) error,
) (outcome retryjob.Outcome, late bool) {
	over := &retryjob.Overtime{Most: cmp.Or(r.Overtime, time.Minute)}
	stuck := *msg // the function may change what it has
	stuck.Attributes = maps.Clone(msg.Attributes)
	var state retry.State
	visible := over.Watch(func(ctx context.Context) error {
		defer maps.Copy(msg.Attributes, ours(msg))
		return fn(ctx)
	})
	attempt := func() retryjob.Outcome {
		end := over.Keep(max(over.Most/3, time.Millisecond), func() {}, func(err error) {
			lost := &retryjob.Stored{State: state, Lost: 1}
			r.report(ctx, msg, errors.Join(err, r.pass(ctx, &stuck, lost)))
		})
		defer end()
		return job.Attempt(ctx, func(ctx context.Context) error {
			state = job.State
			return visible(ctx)
		})
	}
	outcome = attempt()
	for inPlace(msg) && ctx.Err() == nil && !over.Over() && outcome != retryjob.Done && outcome != retryjob.Ended {
		if engine.Tell(ctx, job); outcome == retryjob.Refused {
			r.report(ctx, msg, fmt.Errorf("waits: %w", job.Err))
		}
		engine.Wait(ctx, job.Decision.Delay)
		*job = retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: job.Kind, State: job.State, Lost: job.Lost}
		outcome = attempt()
	}
	return outcome, over.Over()
}

// pass lets another delivery go on while the function runs.
func (r *Retries) pass(ctx context.Context, msg *pubsub.Message, lost *retryjob.Stored) error {
	var err error
	if !inPlace(msg) {
		if err = r.move(ctx, msg, lost, 0, nil); err == nil {
			return nil
		}
	}
	msg.Nack()
	return err
}

// report tells OnError of a message.
func (r *Retries) report(ctx context.Context, msg *pubsub.Message, err error) {
	engine.Report(ctx, r.OnError, fmt.Errorf("retrypubsub: message %s: %w", msg.ID, err))
}

// ours takes the attributes that are ours out of a message. What the function publishes with
// them would be taken for a copy for another subscription, too.
func ours(msg *pubsub.Message) map[string]string {
	return engine.Take(msg.Attributes, subscriptionKey, engine.ErrorKey)
}

// move publishes a copy of a message that comes again after a delay, or that was given up for
// a reason. A message that was given up goes without its State, so that it begins anew if
// somebody moves it back.
func (r *Retries) move(ctx context.Context, msg *pubsub.Message, job *retryjob.Stored, delay time.Duration, reason error) error {
	m, to := &pubsub.Message{Data: msg.Data, Attributes: map[string]string{}}, r.Publisher
	maps.Copy(m.Attributes, msg.Attributes)
	ours(m)
	if reason != nil {
		job.End(reason)
		explain(m, reason)
		if to = r.Dead; to.EnableMessageOrdering {
			m.OrderingKey = msg.OrderingKey
		}
	} else {
		m.Attributes[subscriptionKey] = r.Subscription
		err := engine.Save(func(name, value string) { m.Attributes[name] = value }, job, time.Now().Add(delay))
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := to.Publish(ctx, m).Get(ctx); err != nil {
		if m.OrderingKey != "" {
			to.ResumePublish(m.OrderingKey) // or all that follows fails
		}
		return fmt.Errorf("the copy for %s: %w", to.ID(), err)
	}
	return acknowledge(ctx, msg)
}

// explain puts the reason into a dead letter, as far as there is room.
func explain(m *pubsub.Message, reason error) {
	if text := engine.Text(reason.Error(), min(maxError, max(room(m), 0))); text != "" {
		m.Attributes[engine.ErrorKey] = text
	}
}

// acknowledge acknowledges a message. If delivery is exactly once, the server answers.
func acknowledge(ctx context.Context, msg *pubsub.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := msg.AckWithResult().Get(ctx); err != nil {
		return fmt.Errorf("the acknowledgement: %w", err)
	}
	return nil
}

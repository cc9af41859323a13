package retrywatermill

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The metadata of a copy, besides that of package engine.
const (
	handlerKey = "retry-handler" // whose copy it is
	uuidKey    = "retry-uuid"    // of the message: a broker may drop what has the same one
)

// patience is how long the broker may take to answer.
const patience = time.Minute

// note puts what follows into the metadata of the message. Subscribers that deliver a message
// again themselves keep it.
func (d *delivery) note(job *retryjob.Stored, wait time.Duration) (due time.Time, err error) {
	due = time.Now().Add(max(wait, 0))
	d.msg.Metadata.Set(handlerKey, d.handler)
	delete(d.msg.Metadata, engine.LostKey)
	return due, engine.Save(d.msg.Metadata.Set, job, due)
}

// outgoing returns the context of the messages that follow. It ends when the broker has not
// answered in time, and not afterwards: the subscribers of a broker in memory may get it.
func (d *delivery) outgoing() (ctx context.Context, stop func() bool) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(d.ctx)) // with what the subscriber put there, such as a transaction
	return ctx, time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("the Publisher has not answered in %v", patience))
	}).Stop
}

// answering is a Publisher that answers in time, whatever the broker does.
type answering struct {
	message.Publisher

	delivery *delivery
}

// Publish returns when the message has been published, when its context ends, or when the
// subscriber no longer waits for what becomes of the message that it follows.
func (a answering) Publish(topic string, messages ...*message.Message) error {
	ctx := messages[0].Context()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	go func() {
		answer <- engine.Guard("Publisher", func() error { return a.Publisher.Publish(topic, messages...) })
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.delivery.ctx.Done():
		return fmt.Errorf("the subscriber no longer waits for an answer: %w", context.Cause(a.delivery.ctx))
	}
}

// copied returns a copy of the message for a publisher.
func (d *delivery) copied(ctx context.Context) *message.Message {
	m := d.msg.Copy()
	m.Metadata.Set(uuidKey, m.UUID)
	m.UUID = watermill.NewUUID()
	m.SetContext(ctx)
	return m
}

// again publishes a copy that is due after a delay.
func (d *delivery) again(ctx context.Context, due time.Time, wait time.Duration) error {
	m := d.copied(ctx)
	if wait > 0 {
		due = due.Add(time.Second - 1) // Watermill's delays know seconds, and are rounded down
	}
	delay.Message(m, delay.Until(due))
	if d.Delayed == nil || wait <= d.hold() {
		return answering{d.Publisher, d}.Publish(d.topic, m)
	}
	m.Metadata.Set(middleware.PoisonedTopicKey, d.topic) // where requeuers move it back to
	return answering{d.Delayed, d}.Publish(cmp.Or(d.DelayedTopic, d.topic), m)
}

// poison publishes the message as Watermill's poison queue does, or as it came if there is no
// room for more.
func (d *delivery) poison(ctx context.Context, reason error) error {
	topic := cmp.Or(d.Poison, d.topic+"_poison")
	publisher := answering{d.Publisher, d}
	queue, err := middleware.PoisonQueue(publisher, topic)
	if err != nil {
		return err
	}
	text := reason.Error()
	for _, most := range []int{engine.MaxError, 64} {
		text = engine.Text(text, most)
		handler := func(*message.Message) ([]*message.Message, error) { return nil, errors.New(text) }
		if _, err = queue(handler)(d.dead(ctx)); err == nil {
			return nil
		}
	}
	m := d.dead(ctx)
	m.UUID = rand.Text()[:max(16, min(26, len(d.msg.UUID)))]
	delete(m.Metadata, uuidKey)
	if publisher.Publish(topic, m) != nil {
		return err
	}
	if d.Logger != nil {
		d.Logger.Error("retrywatermill: the poisoned message has no room for its reason", reason,
			watermill.LogFields{"message_uuid": d.msg.UUID})
	}
	return nil
}

// dead returns a copy without the State, so that it begins anew if somebody moves it back.
func (d *delivery) dead(ctx context.Context) *message.Message {
	m := d.copied(ctx)
	engine.Take(m.Metadata, handlerKey, delay.DelayedUntilKey, delay.DelayedForKey, middleware.PoisonedTopicKey)
	return m
}

package retrywatermill

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/seed-5ff3c98e/retry"
)

// The metadata of a copy.
const (
	stateKey   = "retry-state"
	lostKey    = "retry-lost"    // the number of attempts that the State does not have
	dueKey     = "retry-due"     // in milliseconds of Unix time
	handlerKey = "retry-handler" // whose copy it is
	uuidKey    = "retry-uuid"    // of the message: a broker may drop what has the same one
)

// How much of an error's text goes into the metadata.
const (
	maxError = 8 << 10
	minError = 64
)

// note puts what follows into the metadata of the message. Subscribers that deliver a message
// again themselves keep it.
func (d *delivery) note(job *retry.Stored, wait time.Duration) (due time.Time, err error) {
	text, err := job.State.MarshalText()
	due = time.Now().Add(max(wait, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
	d.msg.Metadata.Set(handlerKey, d.handler)
	d.msg.Metadata.Set(stateKey, string(text))
	d.msg.Metadata.Set(dueKey, strconv.FormatInt(due.UnixMilli(), 10))
	delete(d.msg.Metadata, lostKey)
	if job.Lost > 0 {
		d.msg.Metadata.Set(lostKey, strconv.Itoa(job.Lost))
	}
	return due, err
}

// copied returns a copy of the message for a publisher.
func (d *delivery) copied() *message.Message {
	m := d.msg.Copy()
	m.Metadata.Set(uuidKey, m.UUID)
	m.UUID = watermill.NewUUID()
	m.SetContext(context.WithoutCancel(d.ctx)) // with what the subscriber put there, such as a transaction
	return m
}

// again publishes a copy that is due after a delay.
func (d *delivery) again(due time.Time, wait time.Duration) error {
	m := d.copied()
	if wait > 0 {
		due = due.Add(time.Second - 1) // Watermill's delays know seconds, and are rounded down
	}
	delay.Message(m, delay.Until(due))
	if d.Delayed == nil || wait <= d.hold() {
		return d.Publisher.Publish(d.topic, m)
	}
	m.Metadata.Set(middleware.PoisonedTopicKey, d.topic) // where requeuers move it back to
	return d.Delayed.Publish(cmp.Or(d.DelayedTopic, d.topic), m)
}

// poison publishes the message as Watermill's poison queue does, or as it came if there is no
// room for more.
func (d *delivery) poison(reason error) error {
	topic := cmp.Or(d.Poison, d.topic+"_poison")
	queue, err := middleware.PoisonQueue(d.Publisher, topic)
	if err != nil {
		return err
	}
	text := reason.Error()
	for _, most := range []int{maxError, minError} {
		text = strings.ToValidUTF8(text[:min(len(text), most)], "")
		handler := func(*message.Message) ([]*message.Message, error) { return nil, errors.New(text) }
		if _, err = queue(handler)(d.dead()); err == nil {
			return nil
		}
	}
	m := d.dead()
	m.UUID = rand.Text()[:max(16, min(26, len(d.msg.UUID)))]
	delete(m.Metadata, uuidKey)
	if d.Publisher.Publish(topic, m) != nil {
		return err
	}
	if d.Logger != nil {
		d.Logger.Error("retrywatermill: the poisoned message has no room for its reason", reason,
			watermill.LogFields{"message_uuid": d.msg.UUID})
	}
	return nil
}

// dead returns a copy without the State, so that it begins anew if somebody moves it back.
func (d *delivery) dead() *message.Message {
	m := d.copied()
	for _, key := range []string{
		stateKey, lostKey, dueKey, handlerKey, delay.DelayedUntilKey, delay.DelayedForKey, middleware.PoisonedTopicKey,
	} {
		delete(m.Metadata, key)
	}
	return m
}

package retrywatermill

import (
	"cmp"
	"context"
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

// maxError is how much of an error's text goes into the metadata.
const maxError = 8 << 10

// copied returns a copy of the message without its State.
func (d *delivery) copied() *message.Message {
	m := d.msg.Copy()
	for _, key := range []string{
		stateKey, lostKey, dueKey, handlerKey,
		delay.DelayedUntilKey, delay.DelayedForKey, middleware.PoisonedTopicKey,
	} {
		delete(m.Metadata, key)
	}
	m.Metadata.Set(uuidKey, m.UUID)
	m.UUID = watermill.NewUUID()
	m.SetContext(context.WithoutCancel(d.ctx)) // with what the subscriber put there, such as a transaction
	return m
}

// again publishes a copy that is due after a delay.
func (d *delivery) again(job *retry.Stored, wait time.Duration) error {
	m := d.copied()
	text, err := job.State.MarshalText()
	if err != nil {
		return err
	}
	due := time.Now().Add(max(wait, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
	m.Metadata.Set(handlerKey, d.handler)
	m.Metadata.Set(stateKey, string(text))
	m.Metadata.Set(dueKey, strconv.FormatInt(due.UnixMilli(), 10))
	if job.Lost > 0 {
		m.Metadata.Set(lostKey, strconv.Itoa(job.Lost))
	}
	if wait > 0 {
		due = due.Add(time.Second - 1) // Watermill's delays know seconds, and are rounded down
	}
	delay.Message(m, delay.Until(due))
	publisher, topic := d.Publisher, d.topic
	if d.Delayed != nil && wait > d.hold() {
		publisher, topic = d.Delayed, cmp.Or(d.DelayedTopic, topic)
		m.Metadata.Set(middleware.PoisonedTopicKey, d.topic) // where requeuers move it back to
	}
	err = publisher.Publish(topic, m)
	if err != nil {
		// Subscribers that deliver a message again themselves keep this.
		d.msg.Metadata = m.Metadata
	}
	return err
}

// poison publishes the message as Watermill's poison queue does. It goes without its State, so
// that it begins anew if somebody moves it back.
func (d *delivery) poison(reason error) error {
	text := reason.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	queue, err := middleware.PoisonQueue(d.Publisher, cmp.Or(d.Poison, d.topic+"_poison"))
	if err != nil {
		return err
	}
	_, err = queue(func(*message.Message) ([]*message.Message, error) { return nil, errors.New(text) })(d.copied())
	return err
}

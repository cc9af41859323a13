package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// copyHeader has the number of a copy, by which it is known when it is returned.
const copyHeader = "retry-copy"

// publisher publishes copies, and knows of each whether a queue has it. The broker
// confirms a copy that it has no queue for, too, after it has returned it.
type publisher struct {
	channel *amqp.Channel
	number  atomic.Int64

	returned sync.Map      // numbers of the copies that came back
	seen     chan struct{} // taken by watch between two returns
	closed   chan struct{} // when watch has seen the last return

	// The library sends a message as several frames, and another method of the channel
	// in the middle of them ends the connection. So mu is held while anything is sent.
	mu       sync.Mutex
	declared map[string]time.Time
}

func newPublisher(conn *amqp.Connection) (*publisher, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close()
		return nil, err
	}
	p := &publisher{
		channel: channel, seen: make(chan struct{}), closed: make(chan struct{}), declared: map[string]time.Time{},
	}
	go p.watch(channel.NotifyReturn(make(chan amqp.Return)))
	return p, nil
}

// watch notes what comes back, until the channel is closed.
func (p *publisher) watch(returns <-chan amqp.Return) {
	defer close(p.closed)
	for {
		select {
		case copied, open := <-returns:
			if !open {
				return
			}
			p.returned.Store(copied.Headers[copyHeader], nil)
		case <-p.seen:
		}
	}
}

// publish publishes a copy. It returns nil when a queue has it.
func (p *publisher) publish(ctx context.Context, to queue, msg amqp.Publishing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for range 2 { // a queue of ours may be gone although it was declared a moment ago
		if err := p.declare(to); err != nil {
			return err
		}
		number := p.number.Add(1)
		msg.Headers[copyHeader] = number
		confirmed, err := p.send(to, msg)
		if err != nil {
			return err
		}
		if ok, err := confirmed.WaitContext(ctx); err != nil || !ok {
			return errors.Join(fmt.Errorf("the broker has not confirmed the copy in %s", to.name), err)
		}
		// The library gives returns to watch before it reads the confirmation, so they
		// are noted when watch takes this.
		select {
		case p.seen <- struct{}{}:
		case <-p.closed:
		}
		if _, back := p.returned.LoadAndDelete(number); !back {
			return nil
		}
		p.forget(to)
	}
	return fmt.Errorf("there is no queue %s", to.name)
}

func (p *publisher) send(to queue, msg amqp.Publishing) (*amqp.DeferredConfirmation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channel.PublishWithDeferredConfirm("", to.name, true, false, msg)
}

// declare declares a queue of ours, if it was not declared lately.
func (p *publisher) declare(q queue) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !q.ours || time.Since(p.declared[q.name]) < idle/2 {
		return nil
	}
	_, err := p.channel.QueueDeclare(q.name, true, false, false, false, q.args)
	if err == nil {
		p.declared[q.name] = time.Now()
	}
	return err
}

func (p *publisher) forget(q queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.declared, q.name)
}

func (p *publisher) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channel.Close()
}

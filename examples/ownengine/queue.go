package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Message is a delivery of a message, with what is stored beside it.
type Message struct {
	ID, Kind   string
	Deliveries int         // with this one
	State      retry.State // of its job
	Known      int         // deliveries that the State knows of
}

// Queue is a connection to a queue that delivers each message at least once.
type Queue struct {
	*server

	cut atomic.Bool // the connection is gone
}

type server struct {
	mu       sync.Mutex
	messages map[string]*stored
}

// stored is a message of the queue.
type stored struct {
	Message

	visible time.Time // when it may be delivered
	over    bool
	reason  error // of a message that was buried
}

var (
	errStale = errors.New("queue: the message was delivered again, or has ended")
	errCut   = errors.New("queue: the connection is gone")
)

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{server: &server{messages: map[string]*stored{}}} }

// Publish adds a message.
func (q *Queue) Publish(kind, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages[id] = &stored{Message: Message{ID: id, Kind: kind}}
}

// Receive waits for a message that may be delivered, and hides it from others.
func (q *Queue) Receive(ctx context.Context) (Message, error) {
	for {
		if q.cut.Load() {
			return Message{}, errCut
		}
		if m, ok := q.next(); ok {
			return m, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
}

func (q *Queue) next() (Message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if !m.over && !m.visible.After(time.Now()) {
			m.Deliveries++
			m.visible = time.Now().Add(lease)
			return m.Message, true
		}
	}
	return Message{}, false
}

// Keep hides a message for longer.
func (q *Queue) Keep(m Message, d time.Duration) error {
	return q.update(m, false, func(s *stored) { s.visible = time.Now().Add(d) })
}

// Done removes a message. What is done is done, also if the message was delivered again meanwhile.
func (q *Queue) Done(m Message) error {
	return q.update(m, true, func(s *stored) { s.over = true })
}

// Bury puts a message where dead letters are.
func (q *Queue) Bury(m Message, reason error) error {
	return q.update(m, false, func(s *stored) { s.over, s.reason = true, reason })
}

// Again stores what the message says of its job, and delivers it after a delay.
func (q *Queue) Again(m Message, delay time.Duration) error {
	return q.update(m, false, func(s *stored) {
		s.State, s.Known, s.visible = m.State, m.Known, time.Now().Add(delay)
	})
}

// update changes a message, unless it has ended, or another delivery goes on.
func (q *Queue) update(m Message, late bool, change func(*stored)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cut.Load() {
		return errCut
	}
	s := q.messages[m.ID]
	if s == nil || s.over || !late && s.Deliveries != m.Deliveries {
		return errStale
	}
	change(s)
	return nil
}

// Open returns how many messages have not ended.
func (q *Queue) Open() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if !m.over {
			n++
		}
	}
	return n
}

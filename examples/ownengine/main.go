// Command ownengine is an adapter to an engine that counts deliveries, such as a queue of
// messages: to copy from. The engine is in queue.go, in memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// lease is for how long the engine gives a message to one worker.
const lease = time.Second

// Retries handles the messages of a queue. Policy decides; see [retryjob.PolicyFor].
type Retries struct {
	Policy    *retry.Policy
	PolicyFor func(kind string) (*retry.Policy, error)
}

// Handle makes an attempt at a message, and tells the queue what follows. ctx ends when the
// worker stops. The message comes again if the error is not nil.
func (r *Retries) Handle(ctx context.Context, q *Queue, m Message, work func(context.Context) error) error {
	job := retryjob.Stored{
		Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: m.Kind, State: m.State,
		Lost: m.Deliveries - m.Known - 1, // without an outcome, since the State was stored
	}
	// The message is kept while the work goes on, but not for ever if that ignores its context.
	over := &retryjob.Overtime{Most: lease}
	end := over.Keep(lease/3, func() { _ = q.Keep(m, lease) }, func(err error) {
		slog.ErrorContext(ctx, "ownengine", "message", m.ID, "error", err)
	})
	defer end() // after runtime.Goexit
	outcome := job.Attempt(ctx, over.Watch(work))
	end()
	var err error
	switch outcome {
	case retryjob.Done:
		err = q.Done(m)
	case retryjob.Ended:
		err = q.Bury(m, job.Decision.Err)
	case retryjob.Refused:
		slog.ErrorContext(ctx, "ownengine", "message", m.ID, "cause", job.Cause, "error", job.Err)
		fallthrough
	case retryjob.Again, retryjob.Handed:
		m.State, m.Known = job.State, m.Deliveries-job.Lost
		err = q.Again(m, job.Decision.Delay)
	}
	if err == nil {
		err = job.Tell(ctx) // now that it is stored
	}
	return err
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	retries := &Retries{Policy: &retry.Policy{Backoff: retry.Exponential{Initial: 50 * time.Millisecond}}}
	q := NewQueue()
	q.Publish("mail", "welcome")
	for q.Open() > 0 && ctx.Err() == nil {
		m, _ := q.Receive(ctx)
		err := retries.Handle(ctx, q, m, func(context.Context) error {
			if m.Deliveries < 3 {
				return errors.New("busy")
			}
			fmt.Println("sent", m.ID, "in attempt", m.Deliveries)
			return nil
		})
		fmt.Println("stored:", err == nil)
	}
}

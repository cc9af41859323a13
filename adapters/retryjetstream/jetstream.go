package retryjetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The server has this long to answer a request, and Dead to return.
const (
	patience     = 10 * time.Second
	deadPatience = time.Minute
)

var errOvertaken = errors.New("another delivery of the message has gone on")

// Retries handles the messages of a consumer under a policy. A literal is ready to use; only
// Policy, PolicyFor and Dead may be nil. It is safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the subject of the
	// message: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one. A
	// message of a kind without a policy comes again after a second.
	PolicyFor func(kind string) (*retry.Policy, error)

	JetStream jetstream.JetStream
	Consumer  jetstream.Consumer
	States    jetstream.KeyValue // several consumers may share it; its TTL must be longer than any message takes

	// Dead, if not nil, is told of a message that is given up, before it is terminated. Its context
	// ends after a minute. If
	// Dead fails, the message comes again after a second, and Dead is called again, with an
	// error of the same text, or its first 8 KiB.
	Dead func(ctx context.Context, msg jetstream.Msg, reason error) error

	// Overtime is how long Handle keeps a message whose fn goes on after its context has ended. 0
	// means the AckWait of the Consumer. After that OnError is told, the message comes again
	// after AckWait, and the attempt counts as lost. If fn fails later, nothing follows.
	Overtime time.Duration

	// OnError is told, once for a message, that its Overtime is over. nil means slog.Default().
	OnError func(ctx context.Context, err error)

	begin    sync.Once
	fault    error    // of the fields
	reasons  bool     // the server knows reasons of termination, as it does from 2.10.4 on
	recounts bool     // before 2.10.15, it may deliver a message as new again when a connection is lost
	running  sync.Map // the keys of messages that are being handled
}

// Validate reports what is wrong with the fields. The first Handle calls it.
func (r *Retries) Validate() error {
	if r.JetStream == nil || r.Consumer == nil || r.States == nil {
		return errors.New("the JetStream, the Consumer, or States is nil")
	}
	info := r.Consumer.CachedInfo()
	switch c := info.Config; {
	case len(c.BackOff) > 0:
		return fmt.Errorf("consumer %s: BackOff is %v: must be empty, because it distorts the waits", info.Name, c.BackOff)
	case c.MaxDeliver > 0:
		return fmt.Errorf("consumer %s: MaxDeliver is %d: must be -1, because the policy has the limit", info.Name, c.MaxDeliver)
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("consumer %s: AckPolicy is %v: must be explicit", info.Name, c.AckPolicy)
	case r.Overtime < 0:
		return fmt.Errorf("Retries.Overtime is %v: must not be negative", r.Overtime)
	}
	return r.Policy.Validate()
}

// check checks the fields, and asks what the server knows.
func (r *Retries) check() error {
	if err := r.Validate(); err != nil {
		return err
	}
	var major, minor, patch int
	_, _ = fmt.Sscanf(r.JetStream.Conn().ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	version := major*1e6 + minor*1e3 + patch
	r.reasons, r.recounts = version >= 2_010_004, version < 2_010_015
	return nil
}

// Handle runs fn for a message, and tells the server what follows. ctx ends with the process;
// fn gets a child of it. The error says that the server, or Dead, could not be told, or that a
// field is wrong, or that the message has no policy; the message then comes again. It may also
// say that the Observer has panicked. If the message comes while r handles it, because AckWait
// is over, the first Handle goes on.
func (r *Retries) Handle(ctx context.Context, msg jetstream.Msg, fn func(context.Context) error) error {
	r.begin.Do(func() { r.fault = r.check() })
	meta, err := msg.Metadata()
	if err := cmp.Or(r.fault, err); err != nil {
		return fmt.Errorf("retryjetstream: %w", err)
	}
	key := fmt.Sprintf("%s.%s.%d", meta.Stream, meta.Consumer, meta.Sequence.Stream)
	d := &delivery{Retries: r, msg: msg, first: meta.NumDelivered == 1, key: forKeys.Replace(url.QueryEscape(key))}
	if _, running := r.running.LoadOrStore(d.key, d); running {
		return nil
	}
	defer d.leave()
	if err := d.handle(ctx, fn); err != nil {
		return fmt.Errorf("retryjetstream: %s: %w", d.key, err)
	}
	return nil
}

// leave lets another delivery of the message be handled.
func (d *delivery) leave() { d.running.CompareAndDelete(d.key, d) }

var forKeys = strings.NewReplacer("%", "=", "~", "=7E") // which keys may not have

// delivery is one delivery of a message.
type delivery struct {
	*Retries
	msg      jetstream.Msg
	first    bool
	key      string
	revision uint64 // of what is stored; 0 if nothing is
}

// stored is what is in the bucket.
type stored struct {
	State retry.State `json:"state"`
	Begun bool        `json:"begun,omitempty"` // an attempt that State does not have
	Due   time.Time   `json:"due,omitzero"`
	Ended string      `json:"ended,omitempty"` // why, if Dead is still to be told
}

func (d *delivery) handle(ctx context.Context, fn func(context.Context) error) error {
	s, err := d.load(ctx)
	if err != nil {
		return err
	}
	job := retryjob.Stored{Policy: d.Policy, PolicyFor: d.PolicyFor, Kind: d.msg.Subject(), State: s.State}
	if err := d.settle(ctx, &job, s, fn); err != nil {
		return err
	}
	return job.Tell(ctx)
}

// settle makes the attempt, and tells the server what follows.
func (d *delivery) settle(ctx context.Context, job *retryjob.Stored, s stored, fn func(context.Context) error) (err error) {
	switch early := job.Early(time.Until(s.Due)); {
	case early > 0 && early < time.Until(s.Due): // no policy has decided that
		s.Due = time.Now().Add(early)
		return d.again(ctx, s, early)
	case early > 0:
		return d.msg.NakWithDelay(early)
	case s.Ended != "":
		job.Decision = retry.Decision{Err: errors.New(s.Ended), State: s.State}
		return d.terminate(ctx, s.State, job.Decision.Err)
	}
	if s.Begun {
		job.Lost = 1
	}
	outcome := job.Attempt(ctx, func(ctx context.Context) error {
		if !d.first || d.revision > 0 {
			if err = d.store(ctx, stored{State: job.State, Begun: true}); err != nil {
				job.Abort()
				return err
			}
		}
		late, failed := d.run(ctx, fn)
		if late && failed != nil { // another delivery goes on, and has counted this attempt as lost
			err = fmt.Errorf("%w: %w", errOvertaken, failed)
			job.Abort()
		}
		return failed
	})
	switch {
	case err != nil: // the attempt could not begin or was given up, and the message comes again after AckWait
		return err
	case outcome == retryjob.Done:
		asked, end := limited(ctx, patience)
		defer end()
		return d.forget(ctx, d.msg.DoubleAck(asked))
	case outcome == retryjob.Ended:
		return d.terminate(ctx, job.State, job.Decision.Err)
	case outcome == retryjob.Refused:
		err = job.Err
	}
	s = stored{State: job.State, Begun: job.Lost > 0, Due: time.Now().Add(job.Decision.Delay)}
	return errors.Join(err, d.again(ctx, s, job.Decision.Delay))
}

// limited returns a context for what follows an attempt, which goes on when ctx has ended.
func limited(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), most)
}

// load finds the State before the delivery. A first attempt leaves none if it is lost.
func (d *delivery) load(ctx context.Context) (s stored, err error) {
	if d.first && !d.recounts {
		return s, nil
	}
	ctx, end := limited(ctx, patience)
	defer end()
	entry, err := d.States.Get(ctx, d.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return stored{Begun: !d.first}, nil
	} else if err != nil {
		return s, err
	}
	d.revision = entry.Revision()
	if err := json.Unmarshal(entry.Value(), &s); err != nil {
		return stored{Ended: fmt.Sprintf("retryjetstream: the State of %s: %v", d.key, err)}, nil
	}
	return s, nil
}

// store stores s, unless another delivery of the message has stored something since this
// one has looked.
func (d *delivery) store(ctx context.Context, s stored) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	ctx, end := limited(ctx, patience)
	defer end()
	if d.revision == 0 {
		d.revision, err = d.States.Create(ctx, d.key, value)
	} else {
		d.revision, err = d.States.Update(ctx, d.key, value, d.revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return errOvertaken
	}
	return err
}

// run runs fn, and tells the server that it does. If that fails, the message comes again. late
// says that fn had its overtime, so that another delivery may go on.
func (d *delivery) run(ctx context.Context, fn func(context.Context) error) (late bool, err error) {
	wait := d.Consumer.CachedInfo().Config.AckWait
	over := &retryjob.Overtime{Most: cmp.Or(d.Overtime, wait)}
	end := over.Keep(max(wait/3, time.Millisecond), func() { _ = d.msg.InProgress() }, func(stuck error) {
		d.leave()
		engine.Report(ctx, d.OnError, fmt.Errorf("retryjetstream: %s: %w", d.key, stuck))
	})
	defer end()
	err = over.Watch(fn)(ctx)
	return over.Over(), err
}

// again has the message delivered again. If the State cannot be stored, it comes after
// AckWait, and the attempt counts as lost.
func (d *delivery) again(ctx context.Context, s stored, delay time.Duration) error {
	if err := d.store(ctx, s); err != nil {
		return err
	}
	if delay <= 0 {
		return d.msg.Nak()
	}
	return d.msg.NakWithDelay(delay)
}

// terminate ends the message. What fails, or panics, is done again when it comes again.
func (d *delivery) terminate(ctx context.Context, state retry.State, reason error) error {
	text := cmp.Or(engine.Text(reason.Error(), engine.MaxError), "unknown")
	err := engine.Guard("Dead", func() error {
		if d.Dead == nil {
			return nil
		}
		told, end := limited(ctx, deadPatience)
		defer end()
		return d.Dead(told, d.msg, reason)
	})
	switch {
	case err != nil:
	case d.reasons:
		err = d.forget(ctx, d.msg.TermWithReason(text))
	default:
		err = d.forget(ctx, d.msg.Term())
	}
	if err != nil {
		err = errors.Join(err, d.again(ctx, stored{State: state, Ended: text}, time.Second))
	}
	return err
}

// forget removes the State of a message that has ended, unless the server could not be
// told: the message then comes again, with its State.
func (d *delivery) forget(ctx context.Context, err error) error {
	if err != nil || d.revision == 0 {
		return err
	}
	ctx, end := limited(ctx, patience)
	defer end()
	return d.States.Purge(ctx, d.key)
}

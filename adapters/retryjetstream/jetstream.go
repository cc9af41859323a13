package retryjetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
)

// handover is how long a message waits that a shutdown sends back. A redelivery at once
// might go to the client that is going away, and would be lost there.
const handover = time.Second

// maxReason is how much of an error's text the server is told: a message that is longer
// than its max_payload is refused.
const maxReason = 8 << 10

// errOvertaken is returned by a Handle that has taken so long that the server has given
// the message to another worker.
var errOvertaken = errors.New("another delivery of the message has gone on")

// Retries handles the messages of a consumer under a policy. Make one with [New]. It is
// safe for concurrent use.
type Retries struct {
	// Dead, if not nil, is told of a message that is given up, before it is terminated:
	// to keep it elsewhere. If Dead fails, the message is delivered again after a
	// second, and Dead called again, with an error of the same text, or its first 8 KiB. Set it before the
	// first message.
	Dead func(ctx context.Context, msg jetstream.Msg, reason error) error

	policy   *retry.Policy
	consumer jetstream.ConsumerInfo
	states   jetstream.KeyValue
	reasons  bool     // the server knows reasons of termination
	recounts bool     // the server may say of a redelivery that it is the first
	running  sync.Map // the keys of messages that are being handled
}

// New returns the Retries of p for a consumer; nil means the zero Policy. The States
// are in a bucket, which several consumers may share; its TTL should be longer than
// any message takes. The error names what is wrong with p or the consumer.
func New(js jetstream.JetStream, consumer jetstream.Consumer, states jetstream.KeyValue, p *retry.Policy) (*Retries, error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retryjetstream: %w", err)
	}
	if js == nil || consumer == nil || states == nil {
		return nil, errors.New("retryjetstream: the JetStream, the consumer, or the bucket is nil")
	}
	info := consumer.CachedInfo()
	switch c := info.Config; {
	case len(c.BackOff) > 0:
		return nil, fmt.Errorf("retryjetstream: consumer %s: BackOff is %v: must be empty, because it distorts the waits",
			info.Name, c.BackOff)
	case c.MaxDeliver > 0:
		return nil, fmt.Errorf("retryjetstream: consumer %s: MaxDeliver is %d: must be -1, because the policy has the limit",
			info.Name, c.MaxDeliver)
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, fmt.Errorf("retryjetstream: consumer %s: AckPolicy is %v: must be explicit", info.Name, c.AckPolicy)
	}
	return &Retries{
		policy: p, consumer: *info, states: states,
		// A server before 2.10.4 takes no notice of a termination with a reason. One
		// before 2.10.15 delivers a message as new again if it cannot deliver another
		// one because a client has lost its connection.
		reasons: since(js.Conn(), 4), recounts: !since(js.Conn(), 15),
	}, nil
}

// since reports whether the server is 2.10 with this patch, or later.
func since(conn *nats.Conn, wanted int) bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(conn.ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	return major > 2 || major == 2 && (minor > 10 || minor == 10 && patch >= wanted)
}

// Handle runs fn for a message, and tells the server what follows. ctx ends with the
// process; fn gets a child of it. The error says that the server, or Dead, could not be
// told; the message then comes again. A message that comes while r handles it, because
// the server has not heard of that for AckWait, is left to the first Handle.
func (r *Retries) Handle(ctx context.Context, msg jetstream.Msg, fn func(context.Context) error) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("retryjetstream: %w", err)
	}
	d := &delivery{
		Retries: r, msg: msg, first: meta.NumDelivered == 1,
		key: fmt.Sprintf("%s.%s.%d", keyName(meta.Stream), keyName(meta.Consumer), meta.Sequence.Stream),
	}
	if _, running := r.running.LoadOrStore(d.key, nil); running {
		return nil
	}
	defer r.running.Delete(d.key)
	if err := d.handle(ctx, fn); err != nil {
		return fmt.Errorf("retryjetstream: %s: %w", d.key, err)
	}
	return nil
}

// keyName writes what a name may have and a key may not as = and two digits.
func keyName(name string) string { return forKeys.Replace(url.QueryEscape(name)) }

var forKeys = strings.NewReplacer("%", "=", "~", "=7E")

// delivery is one delivery of a message.
type delivery struct {
	*Retries

	msg      jetstream.Msg
	first    bool
	key      string
	revision uint64 // of what is stored; 0 if nothing is
	call     retry.Call
}

// stored is the State in the bucket.
type stored struct {
	State retry.State `json:"state"`
	Begun bool        `json:"begun,omitempty"` // an attempt that State does not have
	Due   time.Time   `json:"due,omitzero"`
	Ended string      `json:"ended,omitempty"` // why, if Dead is still to be told
}

func (d *delivery) handle(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // of a function of the policy
			err = d.terminate(ctx, panicked(r))
		}
	}()
	s, err := d.load(ctx)
	if err != nil {
		return err
	}
	if early := s.Due.Sub(d.policy.Now()); early > 0 {
		return d.msg.NakWithDelay(early)
	}
	if s.Ended != "" {
		return d.terminate(ctx, errors.New(s.Ended))
	}
	d.call = retry.Call{Policy: d.policy, State: s.State, Stored: true}
	lost := 0
	if s.Begun {
		lost = 1
	}
	if over, exhausted := d.call.Lost(ctx, lost); exhausted {
		return d.terminate(ctx, over.Err)
	}
	if !d.first || d.revision > 0 {
		if err := d.store(ctx, stored{State: d.call.State, Begun: true}); err != nil {
			return err
		}
	}
	if !d.call.Begin(ctx) {
		return d.again(ctx, stored{State: d.call.State}, handover)
	}
	return d.after(ctx, d.run(fn)) //nolint:contextcheck // of the attempt, a child of ctx
}

// load finds the State before the delivery. A first attempt leaves none if it is lost.
func (d *delivery) load(ctx context.Context) (s stored, err error) {
	if d.first && !d.recounts {
		return s, nil
	}
	entry, err := d.states.Get(context.WithoutCancel(ctx), d.key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return stored{Begun: !d.first}, nil
	case err != nil:
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
	put := func(ctx context.Context) (uint64, error) { return d.states.Update(ctx, d.key, value, d.revision) }
	if d.revision == 0 {
		put = func(ctx context.Context) (uint64, error) { return d.states.Create(ctx, d.key, value) }
	}
	revision, err := put(context.WithoutCancel(ctx))
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return errOvertaken
	case err != nil:
		return err
	}
	d.revision = revision
	return nil
}

// run runs fn, and tells the server that it does. A panic is an error that ends the
// message.
func (d *delivery) run(fn func(context.Context) error) (err error) {
	var beat sync.WaitGroup
	over := make(chan struct{})
	beat.Go(func() {
		tick := time.NewTicker(max(d.consumer.Config.AckWait/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = d.msg.InProgress() // if it fails, the message comes again
			case <-over:
				return
			}
		}
	})
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(panicked(r))
		}
		close(over)
		beat.Wait()
	}()
	return fn(d.call.Context())
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// after decides what follows.
func (d *delivery) after(ctx context.Context, err error) error {
	if d.call.Interrupted(err) {
		return d.again(ctx, stored{State: d.call.State}, handover)
	}
	switch what := d.call.End(err); {
	case what.Retry:
		return d.again(ctx, stored{State: what.State, Due: what.At}, what.Delay)
	case what.Err != nil:
		return d.terminate(ctx, what.Err)
	default:
		if err := d.msg.DoubleAck(context.WithoutCancel(ctx)); err != nil {
			return err // the message may come again, with its State
		}
		return d.forget(ctx)
	}
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

// terminate ends the message.
func (d *delivery) terminate(ctx context.Context, reason error) error {
	text := reason.Error()
	text = cmp.Or(strings.ToValidUTF8(text[:min(len(text), maxReason)], ""), "unknown")
	if err := d.bury(ctx, reason); err != nil {
		return errors.Join(err, d.again(ctx, stored{State: d.call.State, Ended: text}, time.Second))
	}
	end := d.msg.Term
	if d.reasons {
		end = func() error { return d.msg.TermWithReason(text) }
	}
	if err := end(); err != nil {
		return err
	}
	return d.forget(ctx)
}

// bury tells Dead of the message. A panic is its failure.
func (d *delivery) bury(ctx context.Context, reason error) (err error) {
	if d.Dead == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	return d.Dead(context.WithoutCancel(ctx), d.msg, reason)
}

// forget removes the State of a message that has ended.
func (d *delivery) forget(ctx context.Context) error {
	if d.revision == 0 {
		return nil
	}
	return d.states.Purge(context.WithoutCancel(ctx), d.key)
}

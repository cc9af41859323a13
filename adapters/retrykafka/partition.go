package retrykafka

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
)

const (
	headers      = "retry-" // our headers begin with it
	errorHeader  = headers + "error"
	sourceHeader = headers + "source"

	// maxError is how much of an error's text goes into a header: a topic takes no
	// record that is longer than its max.message.bytes.
	maxError = 8 << 10
)

// partition is a partition that the worker has.
type partition struct {
	*worker

	at       topicPartition
	member   string          // of the group, to which it was assigned
	ctx      context.Context //nolint:containedctx // of its attempts
	cancel   context.CancelFunc
	attempts sync.WaitGroup

	queue  []*kgo.Record  // polled, not begun
	paused bool           // no more are fetched
	under  map[int64]*job // begun, not ended
	marks  map[int64]mark // that an earlier worker has left, of records that were not polled yet
	from   int64          // no record before it comes again
	skip   int64          // records before it have ended, if they have no mark
	next   int64          // the first that has not begun
	dirty  bool           // something is to be committed
}

func newPartition(w *worker, at topicPartition, member string, committed int64, left progress) *partition {
	p := &partition{
		worker: w, at: at, member: member, under: map[int64]*job{}, marks: map[int64]mark{},
		from: committed, skip: left.Next, next: left.Next,
	}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	for _, m := range left.Marks {
		p.marks[m.Offset] = m
	}
	return p
}

// begin begins what is due, as far as Parallel allows.
func (p *partition) begin() (begun []*job) {
	if p.ctx.Err() != nil {
		return nil
	}
	for len(p.queue) > 0 && len(p.under) < max(p.Parallel, 1) {
		p.take(p.queue[0])
		p.queue = p.queue[1:]
	}
	p.throttle()
	for j := range maps.Values(p.under) {
		if j.ready {
			j.ready, j.running, p.dirty = false, true, true
			if j.state.First.IsZero() {
				j.state.First = p.policy.Now()
			}
			begun = append(begun, j)
		}
	}
	return begun
}

// take takes the next record. Records come in order.
func (p *partition) take(r *kgo.Record) {
	if r.Offset < p.from { // the log has lost its end, and these are new records
		clear(p.under)
		clear(p.marks)
		p.skip, p.next = 0, r.Offset
	}
	p.from = r.Offset + 1
	maps.DeleteFunc(p.marks, func(offset int64, _ mark) bool { return offset < r.Offset }) // no longer in the log
	m, marked := p.marks[r.Offset]
	delete(p.marks, r.Offset)
	p.next, p.dirty = max(p.next, r.Offset+1), true
	if !marked && r.Offset < p.skip {
		return
	}
	j := &job{partition: p, record: r, state: retry.State(m.State)}
	if m.Running { // its worker died
		j.lost = 1
	}
	p.under[r.Offset] = j
	j.wait(time.UnixMilli(m.Due), time.UnixMilli(m.Due).Sub(p.policy.Now()))
}

// throttle stops fetching while there are enough records.
func (p *partition) throttle() {
	which := map[string][]int32{p.at.topic: {p.at.partition}}
	switch n := len(p.queue); {
	case !p.paused && n >= pause:
		p.paused = true
		p.client.PauseFetchPartitions(which)
	case p.paused && (n < pause/2 || p.ctx.Err() != nil):
		p.paused = false
		p.client.ResumeFetchPartitions(which)
	}
}

// progress returns what there is to commit.
func (p *partition) progress() progress {
	now := progress{Next: p.next}
	for m := range maps.Values(p.marks) {
		now.Marks = append(now.Marks, m)
	}
	for offset, j := range p.under {
		m := mark{Offset: offset, State: stateText(j.state), Running: j.running || j.lost > 0}
		if j.running {
			m.State.Failures += j.lost
		}
		if !j.running && !j.ready {
			m.Due = j.due.Add(time.Millisecond - 1).UnixMilli()
		}
		now.Marks = append(now.Marks, m)
	}
	return now
}

// job is a record that is under way. The mutex of the worker guards it.
type job struct {
	*partition

	record  *kgo.Record
	state   retry.State
	lost    int // attempts that the State does not have
	running bool
	ready   bool      // to run
	due     time.Time // unless it is running or ready
	timer   *time.Timer
}

// wait makes the job ready after a delay.
func (j *job) wait(due time.Time, delay time.Duration) {
	if j.due, j.ready = due, delay <= 0; j.ready {
		return
	}
	j.timer = time.AfterFunc(delay, func() {
		j.mu.Lock()
		j.ready = true
		j.mu.Unlock()
		j.wake()
	})
}

// attempt runs the function for the record, and decides what follows.
func (j *job) attempt() {
	defer func() {
		if r := recover(); r != nil { // of a function of the policy
			j.giveUp(j.state, panicked(r))
		}
	}()
	call := retry.Call{Policy: j.policy, State: j.state, Stored: true}
	if over, exhausted := call.Lost(j.ctx, j.lost); exhausted {
		j.giveUp(call.State, over.Err)
		return
	}
	if !call.Begin(j.ctx) {
		j.again(call.State, time.Time{}, 0)
		return
	}
	err := j.run(call.Context())
	if call.Interrupted(err) {
		j.again(call.State, time.Time{}, 0)
		return
	}
	switch d := call.End(err); {
	case d.Retry:
		j.again(d.State, d.At, d.Delay)
	case d.Err != nil:
		j.giveUp(d.State, d.Err)
	default:
		j.end()
	}
}

// run runs the function. A panic is an error that ends the record.
func (j *job) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(panicked(r))
		}
	}()
	return j.fn(ctx, j.record)
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// again has the function run again after a delay.
func (j *job) again(s retry.State, due time.Time, delay time.Duration) {
	j.mu.Lock()
	j.running, j.state, j.lost, j.dirty = false, s, 0, true
	j.wait(due, delay)
	j.mu.Unlock()
	j.wake()
}

// giveUp puts a copy of the record into the dead letter topic, and ends the record.
func (j *job) giveUp(s retry.State, reason error) {
	r := j.record
	source := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	text := reason.Error()
	dead := &kgo.Record{Topic: j.deadTopic(r.Topic), Key: r.Key, Value: r.Value, Headers: []kgo.RecordHeader{
		{Key: errorHeader, Value: []byte(strings.ToValidUTF8(text[:min(len(text), maxError)], ""))}, {Key: sourceHeader, Value: []byte(source)},
	}}
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, headers) {
			dead.Headers = append(dead.Headers, h)
		}
	}
	if err := j.client.ProduceSync(j.life, dead).FirstErr(); err != nil {
		j.stop(fmt.Errorf("%s: topic %s: %w", source, dead.Topic, err))
		if !j.policy.NonIdempotent { // else it stays as one whose worker died, and is not run again
			j.again(s, time.Time{}, 0)
		}
		return
	}
	j.end()
}

// end ends the record.
func (j *job) end() {
	j.mu.Lock()
	if j.under[j.record.Offset] == j {
		delete(j.under, j.record.Offset)
	}
	j.dirty = true
	j.mu.Unlock()
	j.wake()
}

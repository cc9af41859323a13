package retrykafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// No more records are fetched for a partition while this many wait in it, or while they have
// its share of these bytes.
const (
	mostWaiting = 1000
	mostBytes   = 64 << 20
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
	bytes  int            // of the queue
	paused bool           // no more are fetched
	under  map[int64]*job // begun, not ended
	marks  map[int64]mark // that an earlier worker has left, of records that were not polled yet
	from   int64          // no record before it comes again
	skip   int64          // records before it have ended, if they have no mark
	next   int64          // the first that has not begun

	dirty bool   // something is to be committed
	begun []*job // by the commit in progress

	outcomes, stored []*retryjob.Stored // what the next commit stores, and the one in progress
	offset           int64              // of the last commit
	metadata         string             // of the last commit
	refused          int                // commits in a row
	again            time.Time          // no commit before it
}

// open adds a partition that goes on where an earlier worker has stopped.
func (w *worker) open(at topicPartition, member string, offset int64, left progress) {
	p := &partition{
		worker: w, at: at, member: member, under: map[int64]*job{}, marks: map[int64]mark{},
		from: offset, skip: left.Next, next: left.Next,
	}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	for _, m := range left.Marks {
		p.marks[m.Offset] = m
	}
	w.partitions[at] = p
}

// close drops the partition.
func (p *partition) close() {
	p.cancel()
	for _, j := range p.under {
		if j.timer != nil {
			j.timer.Stop()
		}
	}
	p.throttle()
	delete(p.partitions, p.at)
}

// add queues records.
func (p *partition) add(records []*kgo.Record) {
	for _, r := range records {
		own(r)
		p.queue = append(p.queue, r)
		p.bytes += size(r)
	}
	p.throttle()
}

// own gives a record memory of its own. Otherwise a record that waits keeps all that was
// fetched with it, also that of other partitions.
func own(r *kgo.Record) {
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
}

func size(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// throttle stops fetching when the queue is full, until half of it has begun.
func (p *partition) throttle() {
	which, share := map[string][]int32{p.at.topic: {p.at.partition}}, mostBytes/max(len(p.partitions), 1)
	switch n := len(p.queue); {
	case !p.paused && (n >= mostWaiting || p.bytes >= share):
		p.paused = true
		p.client.PauseFetchPartitions(which)
	case p.paused && (n < mostWaiting/2 && p.bytes <= share/2 || p.ctx.Err() != nil):
		p.paused = false
		p.client.ResumeFetchPartitions(which)
	}
}

// begin begins what is due, as far as Parallel allows.
func (p *partition) begin() (err error) {
	if p.ctx.Err() != nil {
		return nil
	}
	for len(p.queue) > 0 && len(p.under) < max(p.Parallel, 1) {
		r := p.queue[0]
		p.queue[0], p.queue, p.bytes = nil, p.queue[1:], p.bytes-size(r)
		p.take(r)
	}
	p.throttle()
	for j := range maps.Values(p.under) {
		if j.running || time.Until(j.due) > 0 {
			continue
		}
		if j.policy, err = retryjob.PolicyFor(p.at.topic, p.Policy, p.PolicyFor); err != nil {
			j.wait(time.Now().Add(pause))
			continue
		}
		if j.state.First.IsZero() {
			j.state.First = j.policy.Now()
		}
		j.running, p.dirty = true, true
		p.begun = append(p.begun, j)
	}
	return err
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
	j.wait(time.UnixMilli(m.Due))
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
		if time.Until(j.due) > 0 {
			m.Due = engine.Milli(j.due)
		}
		now.Marks = append(now.Marks, m)
	}
	return now
}

// job is a record that is under way. The mutex of the worker guards it.
type job struct {
	*partition
	record  *kgo.Record
	policy  *retry.Policy // of the attempt
	state   retry.State
	lost    int // attempts that the State does not have
	running bool
	due     time.Time // on the monotonic clock
	timer   *time.Timer
}

// wait lets the job begin when it is due.
func (j *job) wait(due time.Time) {
	delay := time.Until(due)
	if j.due = time.Now().Add(delay); delay > 0 {
		j.timer = time.AfterFunc(delay, j.wake)
	}
}

// attempt runs the function for the record, and does what follows.
func (j *job) attempt() {
	s := retryjob.Stored{Policy: j.policy, State: j.state, Lost: j.lost}
	ended, lost, due := false, 1, time.Time{} // after runtime.Goexit
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.running, j.state, j.lost, j.dirty = false, s.State, lost, true
		if !ended {
			j.wait(due)
		} else if j.under[j.record.Offset] == j {
			delete(j.under, j.record.Offset)
		}
		if lost == 0 {
			j.outcomes = append(j.outcomes, &s)
		}
		j.wake()
	}()
	switch s.Attempt(j.ctx, func(ctx context.Context) error { return j.fn(ctx, j.record) }) {
	case retryjob.Done:
		ended, lost = true, 0
	case retryjob.Ended:
		if ended = j.ours() && j.bury(s.Decision.Err); ended { // else it counts as lost
			lost = 0
		}
	case retryjob.Refused:
		j.failed(fmt.Errorf("%s: %w", j.source(), s.Err))
		fallthrough
	case retryjob.Again, retryjob.Handed:
		lost, due = 0, time.Now().Add(s.Decision.Delay)
	}
}

// ours reports whether the worker still has the partition. Another worker decides about a record
// whose attempt went on too long.
func (j *job) ours() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.partitions[j.at] == j.partition
}

const (
	most        = 32      // records may be under way: their marks fit into offset.metadata.max.bytes
	mostCounted = 999_999 // failures of a record: further ones are not counted
)

// progress is what has become of the records of a partition. Its JSON is the metadata of
// a commit, whose offset is that of the first mark, or Next. All records before Next have
// ended, except those with a mark.
type progress struct {
	Marks []mark `json:"retry"`
	Next  int64  `json:"next"`
}

// mark is a record that is under way: it has begun and has not ended.
type mark struct {
	Offset  int64     `json:"o"`
	State   stateText `json:"s,omitzero"`
	Due     int64     `json:"d,omitempty"` // in milliseconds of Unix time, if it waits
	Running bool      `json:"r,omitempty"`
}

// stateText is a State whose JSON is its text form, which is shorter.
type stateText retry.State

func (s stateText) MarshalText() ([]byte, error) { return retry.State(s.bounded()).MarshalText() }

func (s *stateText) UnmarshalText(text []byte) error {
	err := (*retry.State)(s).UnmarshalText(text)
	*s = s.bounded()
	return err
}

// bounded bounds the text, and what others have written.
func (s stateText) bounded() stateText {
	s.Failures, s.RateLimited, s.Pending = min(s.Failures, mostCounted), min(s.RateLimited, mostCounted), min(s.Pending, mostCounted)
	if s.First = s.First.UTC().Truncate(time.Millisecond); s.First.Year() > 9999 { // it has no text
		s.First = time.Time{}
	}
	return s
}

// commit returns the offset and the metadata to commit.
func (p progress) commit() (offset int64, metadata string) {
	if len(p.Marks) == 0 {
		return p.Next, ""
	}
	slices.SortFunc(p.Marks, func(a, b mark) int { return cmp.Compare(a.Offset, b.Offset) })
	text, _ := json.Marshal(p) // cannot fail; without it, the records would begin anew
	return p.Marks[0].Offset, string(text)
}

// progressOf reads what was committed. Metadata of somebody else says nothing.
func progressOf(offset int64, metadata *string) progress {
	var p progress
	if metadata == nil || json.Unmarshal([]byte(*metadata), &p) != nil || len(p.Marks) == 0 || p.Marks[0].Offset != offset {
		return progress{Next: max(offset, 0)} // -1: nothing was committed
	}
	return p
}

package retrykafka

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
)

const (
	headers  = "retry-" // our headers begin with it
	maxError = 8 << 10  // of an error's text: max.message.bytes limits a record
)

// partition is a partition that the worker has.
type partition struct {
	*worker
	at       topicPartition
	member   string          // of the group, to which it was assigned
	metadata string          // of the last commit
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

// forget drops the partition.
func (p *partition) forget() {
	p.cancel()
	for _, j := range p.under {
		if j.timer != nil {
			j.timer.Stop()
		}
	}
	p.throttle()
	delete(p.partitions, p.at)
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
		if j.running || time.Until(j.due) > 0 {
			continue
		}
		policy, err := p.Policy.For(p.at.topic, p.PolicyFor)
		if err != nil {
			p.stop(err)
			break
		}
		if j.policy = policy; j.state.First.IsZero() {
			j.state.First = policy.Now()
		}
		j.running, p.dirty = true, true
		begun = append(begun, j)
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
	j.wait(time.UnixMilli(m.Due))
}

// throttle stops fetching when there are 1000 records, until half of them have begun.
func (p *partition) throttle() {
	which := map[string][]int32{p.at.topic: {p.at.partition}}
	switch n := len(p.queue); {
	case !p.paused && n >= 1000:
		p.paused = true
		p.client.PauseFetchPartitions(which)
	case p.paused && (n < 500 || p.ctx.Err() != nil):
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
		if time.Until(j.due) > 0 {
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
	s := retry.Stored{Policy: j.policy, State: j.state, Lost: j.lost}
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
		j.wake()
	}()
	switch s.Attempt(j.ctx, func(ctx context.Context) error { return j.fn(ctx, j.record) }) {
	case retry.Done:
		ended = true
	case retry.Ended:
		ended = j.bury(s.Decision.Err) // else it counts as lost
	case retry.Again, retry.Handed:
		lost, due = 0, time.Now().Add(s.Decision.Delay)
	}
}

// bury puts a copy of the record into the dead letter topic. It ends Run if that fails.
func (j *job) bury(reason error) bool {
	r := j.record
	source := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	text := reason.Error()
	letter := &kgo.Record{Topic: j.dead(r.Topic), Key: r.Key, Value: r.Value, Headers: []kgo.RecordHeader{
		{Key: headers + "error", Value: []byte(strings.ToValidUTF8(text[:min(len(text), maxError)], ""))},
		{Key: headers + "source", Value: []byte(source)},
	}}
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, headers) {
			letter.Headers = append(letter.Headers, h)
		}
	}
	err := j.client.ProduceSync(j.life, letter).FirstErr()
	if err != nil {
		j.stop(fmt.Errorf("%s: topic %s: %w", source, letter.Topic, err))
	}
	return err == nil
}

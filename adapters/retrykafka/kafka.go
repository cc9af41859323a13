package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
)

const (
	// pause is how many records of a partition are kept until no more are fetched.
	pause = 1000

	// again is the time between two tries of a commit that fails.
	again = 100 * time.Millisecond

	// farewell is the most that leaving the group takes.
	farewell = 10 * time.Second
)

// Retries consumes records under a policy. Make one with [New].
type Retries struct {
	// Parallel is how many records of a partition may be under way at the same time,
	// running or waiting: 32 at most. 1 or less, the default, keeps the order of
	// records: one that waits for its retry holds up its partition. With more, others
	// overtake it. Set it before Run.
	Parallel int

	// DeadSuffix makes the name of a topic's dead letter topic. Empty means ".dead".
	// Set it before Run.
	DeadSuffix string

	policy  *retry.Policy
	options []kgo.Opt
}

// New returns the Retries of p, nil means the zero Policy, for a client with these
// options, which have to name the brokers, the group and the topics. The error says what
// is wrong with p or the options.
func New(p *retry.Policy, options ...kgo.Opt) (*Retries, error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrykafka: %w", err)
	}
	r := &Retries{policy: p, options: options}
	if err := kgo.ValidateOpts((&worker{Retries: r}).options()...); err != nil {
		return nil, fmt.Errorf("retrykafka: %w", err)
	}
	return r, nil
}

// Run joins the group and calls fn for every record, until ctx ends. Cancel it to stop: a
// deadline of ctx is one of the attempts, which fail by it. fn is called by several
// goroutines, and gets a child of ctx. Then Run waits for fn to return, for a third of the
// RebalanceTimeout at most, leaves the group, and returns nil. Before that, it returns an
// error only if it cannot go on: the group or a topic is forbidden, there is no dead
// letter topic, or it does not take a record.
func (r *Retries) Run(ctx context.Context, fn func(context.Context, *kgo.Record) error) error {
	if fn == nil {
		return errors.New("retrykafka: the function is nil")
	}
	first := true
	err := r.member(ctx, fn, first)
	for errors.Is(err, errExpelled) && ctx.Err() == nil {
		err = r.member(ctx, fn, !first)
	}
	if errors.Is(err, errExpelled) {
		return nil
	}
	return err
}

// errExpelled ends a membership that the group has ended.
var errExpelled = errors.New("the group has gone on without this worker")

// member is Run for one membership of the group. Only the first is checked.
func (r *Retries) member(ctx context.Context, fn func(context.Context, *kgo.Record) error, first bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w := &worker{
		Retries: r, fn: fn, ctx: ctx, stop: stop, life: life,
		changed: make(chan struct{}, 1), partitions: map[topicPartition]*partition{},
	}
	w.mu.Lock() // callbacks wait until there is a client
	client, err := kgo.NewClient(w.options()...)
	w.client = client
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("retrykafka: %w", err)
	}
	defer client.CloseAllowingRebalance()
	if first {
		if err := w.check(ctx); err != nil {
			return fmt.Errorf("retrykafka: %w", err)
		}
	}
	var committer sync.WaitGroup
	committer.Go(w.commitChanges)
	w.poll()
	leaving, cancel := context.WithTimeout(life, w.patience()+farewell)
	defer cancel()
	_ = client.LeaveGroupContext(leaving) // if it fails, the session times out
	end()
	committer.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("retrykafka: %w", err)
	}
	return nil
}

// worker is a Run.
type worker struct {
	*Retries

	fn     func(context.Context, *kgo.Record) error
	client *kgo.Client
	ctx    context.Context         //nolint:containedctx // of all attempts
	stop   context.CancelCauseFunc // ends ctx
	life   context.Context         //nolint:containedctx // of requests, which go on after ctx has ended

	changed chan struct{} // there is something to commit

	commits    sync.Mutex // held during a commit; locked before mu
	mu         sync.Mutex // guards all below, and the partitions
	partitions map[topicPartition]*partition
}

type topicPartition struct {
	topic     string
	partition int32
}

// options are the user's and those that the policy depends on.
func (w *worker) options() []kgo.Opt {
	return append(slices.Clone(w.Retries.options),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.OnOffsetsFetched(w.assigned), kgo.OnPartitionsRevoked(w.revoked), kgo.OnPartitionsLost(w.lost),
	)
}

// check returns an error if there is nowhere to put dead letters.
func (w *worker) check(ctx context.Context) error {
	if id, _ := w.client.OptValue(kgo.TransactionalID).(string); id != "" {
		return fmt.Errorf("option TransactionalID is %q: must not be set", id)
	}
	if w.Parallel > most {
		return fmt.Errorf("retries.Parallel is %d: must be at most %d", w.Parallel, most)
	}
	if regex, _ := w.client.OptValue(kgo.ConsumeRegex).(bool); regex {
		return nil // the topics are not known yet
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range w.client.GetConsumeTopics() {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = new(w.deadTopic(topic))
		request.Topics = append(request.Topics, t)
	}
	response, err := request.RequestWith(ctx, w.client)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s, for records that are given up: %w", *t.Topic, err)
		}
	}
	return nil
}

func (w *worker) deadTopic(topic string) string {
	if w.DeadSuffix == "" {
		return topic + ".dead"
	}
	return topic + w.DeadSuffix
}

// fatal reports whether an error of a broker does not go away.
func fatal(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.FencedInstanceID, kerr.OffsetMetadataTooLarge, kerr.InvalidSessionTimeout,
	}, func(target error) bool { return errors.Is(err, target) })
}

// poll hands records to their partitions until ctx ends.
func (w *worker) poll() {
	for w.ctx.Err() == nil {
		fetches := w.client.PollFetches(w.ctx)
		fetches.EachError(func(topic string, _ int32, err error) {
			if fatal(err) {
				if topic != "" {
					err = fmt.Errorf("topic %s: %w", topic, err)
				}
				w.stop(err)
			}
		})
		w.mu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if p := w.partitions[topicPartition{f.Topic, f.Partition}]; p != nil {
				p.queue = append(p.queue, f.Records...)
				p.throttle()
			}
		})
		w.mu.Unlock()
		w.client.AllowRebalance()
		w.wake()
	}
}

// wake has what has changed committed.
func (w *worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// commitChanges commits what has changed, until life ends.
func (w *worker) commitChanges() {
	for {
		select {
		case <-w.changed:
		case <-w.life.Done():
			return
		}
		if err := w.flush(); err != nil {
			if fatal(err) || errors.Is(err, errExpelled) {
				w.stop(fmt.Errorf("commit: %w", err))
			}
			time.AfterFunc(again, w.wake)
		}
	}
}

// flush begins what can begin, commits, and then starts the attempts that have begun. All
// that happens during a commit is in the next one.
func (w *worker) flush() error {
	w.commits.Lock()
	defer w.commits.Unlock()
	offsets, with := map[string]map[int32]kgo.EpochOffset{}, map[topicPartition]memo{}
	var begun []*job
	w.mu.Lock()
	for at, p := range w.partitions {
		begun = append(begun, p.begin()...)
		if !p.dirty {
			continue
		}
		offset, text, err := p.progress().commit()
		if err != nil {
			w.stop(err) // a State cannot fail
		}
		p.dirty = false
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
		with[at] = memo{text, p.member}
	}
	w.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	err := w.commit(offsets, with)
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range with {
		if p := w.partitions[at]; p != nil && err != nil {
			p.dirty = true
		}
	}
	for _, j := range begun {
		if err != nil || j.ctx.Err() != nil {
			j.running, j.ready, j.dirty = false, true, true
			continue
		}
		j.attempts.Go(j.attempt)
	}
	return err
}

// memo is what a commit says of a partition besides the offset, and the member of the
// group that may say it.
type memo struct{ metadata, member string }

// commit commits offsets. If the group has expelled this worker, and the commit is the
// first to learn it, the client joins again as another member. It then commits what is
// old, and may take a partition for one that it still has. So this is refused.
func (w *worker) commit(offsets map[string]map[int32]kgo.EpochOffset, with map[topicPartition]memo) (err error) {
	ctx := kgo.PreCommitFnContext(w.life, func(request *kmsg.OffsetCommitRequest) error {
		for _, t := range request.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				m := with[topicPartition{t.Topic, p.Partition}]
				if m.member != request.MemberID {
					return errExpelled
				}
				p.Metadata = new(m.metadata)
			}
		}
		return nil
	})
	w.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, requestErr error,
	) {
		if err = requestErr; err != nil {
			return
		}
		for _, t := range response.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	})
	return err
}

// assigned is called when partitions are assigned, with what was committed.
func (w *worker) assigned(_ context.Context, client *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	member, _ := client.GroupMetadata()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, group := range response.Groups {
		for _, t := range group.Topics {
			if t.Topic == "" {
				return fmt.Errorf("retrykafka: the topic with ID %x has no name", t.TopicID)
			}
			for _, committed := range t.Partitions {
				at := topicPartition{t.Topic, committed.Partition}
				w.partitions[at] = newPartition(w, at, member, committed.Offset, progressOf(committed.Offset, committed.Metadata))
			}
		}
	}
	return nil
}

// revoked is called when partitions move to another worker, and when this one leaves.
//
//nolint:contextcheck // commits have the context of the worker
func (w *worker) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	gone := w.cancel(partitions)
	if len(gone) == 0 {
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, p := range gone {
			p.attempts.Wait()
		}
	}()
	select {
	case <-over:
	case <-time.After(w.patience()): // those that go on count as lost
	}
	_ = w.flush() // if it fails, what has ended since the last commit counts as lost
	w.forget(gone)
}

// patience is how long attempts have to end when their partitions move.
func (w *worker) patience() time.Duration {
	timeout, _ := w.client.OptValue(kgo.RebalanceTimeout).(time.Duration)
	return timeout / 3
}

// lost is called when the group has gone on without this worker.
func (w *worker) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	w.forget(w.cancel(partitions))
}

// cancel ends the attempts of partitions. None begins after it.
func (w *worker) cancel(partitions map[string][]int32) (canceled []*partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if p := w.partitions[topicPartition{topic, number}]; p != nil {
				p.cancel()
				canceled = append(canceled, p)
			}
		}
	}
	return canceled
}

// forget drops partitions.
func (w *worker) forget(partitions []*partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range partitions {
		for _, j := range p.under {
			if j.timer != nil {
				j.timer.Stop()
			}
		}
		p.throttle()
		if w.partitions[p.at] == p {
			delete(w.partitions, p.at)
		}
	}
}

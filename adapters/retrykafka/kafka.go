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

var errExpelled = errors.New("the group has gone on without this worker") // and it joins again

// Retries consumes records under a policy. A literal with Options is ready to use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the topic of the
	// record: see [retry.Policy.For]. The method Get of a retrypolicies.Policies is one. A
	// record of a kind without a policy ends Run.
	PolicyFor func(kind string) (*retry.Policy, error)

	Options []kgo.Opt // of the client: at least the brokers, the group and the topics

	// Parallel is how many records of a partition may run or wait at the same time, 32 at
	// most. 1 or less keeps their order: a record that waits for its retry holds up the others.
	Parallel int

	// Dead returns the dead letter topic of a topic. nil means the name of the topic and ".dead".
	Dead func(topic string) string
}

// Run joins the group and calls fn, in several goroutines, for every record until ctx ends.
// Cancel ctx to stop: a deadline is a limit of the attempts, which fail by it. fn gets a child
// of ctx. Then Run waits for fn, for a third of the RebalanceTimeout at most, leaves the group,
// and returns nil. It returns an error if it cannot go on: a field is wrong, the group or a
// topic is forbidden, a topic has no policy, or a dead letter topic takes no record.
func (r *Retries) Run(ctx context.Context, fn func(context.Context, *kgo.Record) error) error {
	dead := r.Dead
	if dead == nil {
		dead = func(topic string) string { return topic + ".dead" }
	}
	for first := true; ; first = false {
		w := &worker{
			Retries: r, fn: fn, dead: dead, changed: make(chan struct{}, 1), partitions: map[topicPartition]*partition{},
		}
		switch err := w.run(ctx, first); {
		case errors.Is(err, errExpelled) && ctx.Err() == nil:
		case errors.Is(err, errExpelled) || errors.Is(err, context.Cause(ctx)):
			return nil
		default:
			return fmt.Errorf("retrykafka: %w", err)
		}
	}
}

// worker is a Run, for one membership of the group.
type worker struct {
	*Retries
	fn         func(context.Context, *kgo.Record) error
	dead       func(topic string) string
	client     *kgo.Client
	patience   time.Duration           // how long attempts have to end when their partitions move
	ctx        context.Context         //nolint:containedctx // of all attempts
	stop       context.CancelCauseFunc // ends ctx
	life       context.Context         //nolint:containedctx // of requests, which go on after ctx has ended
	changed    chan struct{}           // there is something to commit
	commits    sync.Mutex              // held during a commit; locked before mu
	mu         sync.Mutex              // guards all below, and the partitions
	partitions map[topicPartition]*partition
}

type topicPartition struct {
	topic     string
	partition int32
}

// run is Run for one membership of the group. Only the first is checked.
func (w *worker) run(ctx context.Context, first bool) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w.ctx, w.stop, w.life = ctx, stop, life
	w.mu.Lock() // callbacks wait until there is a client
	w.client, err = kgo.NewClient(append(slices.Clone(w.Options),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.OnOffsetsFetched(w.assigned), kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			w.each(lost, (*partition).forget)
		}),
	)...)
	if err == nil {
		timeout, _ := w.client.OptValue(kgo.RebalanceTimeout).(time.Duration)
		w.patience = timeout / 3
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	defer w.client.CloseAllowingRebalance()
	if first {
		if err := w.check(); err != nil {
			return err
		}
	}
	var committer sync.WaitGroup
	committer.Go(w.commitChanges)
	w.poll()
	leaving, cancel := context.WithTimeout(life, w.patience+10*time.Second)
	defer cancel()
	_ = w.client.LeaveGroupContext(leaving) // if it fails, the session times out
	end()
	committer.Wait()
	return context.Cause(ctx)
}

// check returns an error if a field is wrong, or there is nowhere to put dead letters.
func (w *worker) check() error {
	id, _ := w.client.OptValue(kgo.TransactionalID).(string)
	regex, _ := w.client.OptValue(kgo.ConsumeRegex).(bool)
	switch err := w.Policy.Validate(); {
	case err != nil:
		return err
	case w.fn == nil:
		return errors.New("the function is nil")
	case id != "":
		return fmt.Errorf("option TransactionalID is %q: must not be set", id)
	case w.Parallel > most:
		return fmt.Errorf("retries.Parallel is %d: must be at most %d", w.Parallel, most)
	case regex:
		return nil // the topics are not known yet
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range w.client.GetConsumeTopics() {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = new(w.dead(topic))
		request.Topics = append(request.Topics, t)
	}
	response, err := request.RequestWith(w.ctx, w.client)
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

// fatal reports whether an error of a broker does not go away.
func fatal(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.FencedInstanceID, kerr.OffsetMetadataTooLarge, kerr.InvalidSessionTimeout, errExpelled,
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

// wake starts a commit of what has changed.
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
		err := w.flush()
		if fatal(err) {
			w.stop(fmt.Errorf("commit: %w", err))
		}
		if err != nil {
			time.AfterFunc(100*time.Millisecond, w.wake)
		}
	}
}

// flush begins what can begin, commits, and then starts the attempts that have begun. All
// that happens during a commit is in the next one.
func (w *worker) flush() error {
	w.commits.Lock()
	defer w.commits.Unlock()
	offsets, of, begun := map[string]map[int32]kgo.EpochOffset{}, map[topicPartition]*partition{}, []*job(nil)
	w.mu.Lock()
	for at, p := range w.partitions {
		begun = append(begun, p.begin()...)
		if !p.dirty {
			continue
		}
		var offset int64
		offset, p.metadata = p.progress().commit()
		if of[at], p.dirty = p, false; offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	w.mu.Unlock()
	if len(of) == 0 {
		return nil
	}
	err := w.commit(offsets, of)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range of {
		p.dirty = p.dirty || err != nil
	}
	for _, j := range begun {
		if err != nil || j.ctx.Err() != nil {
			j.running, j.dirty = false, true
			continue
		}
		j.attempts.Go(j.attempt)
	}
	return err
}

// commit commits the offsets of partitions. If the group has expelled this worker, and the
// commit is the first to learn it, the client joins again as another member. It would then
// commit old offsets, perhaps of a partition that it has lost. So that is refused.
func (w *worker) commit(offsets map[string]map[int32]kgo.EpochOffset, of map[topicPartition]*partition) (err error) {
	ctx := kgo.PreCommitFnContext(w.life, func(request *kmsg.OffsetCommitRequest) error {
		for _, t := range request.Topics {
			for i := range t.Partitions {
				p := of[topicPartition{t.Topic, t.Partitions[i].Partition}]
				if p.member != request.MemberID {
					return errExpelled
				}
				t.Partitions[i].Metadata = &p.metadata
			}
		}
		return nil
	})
	w.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, failed error,
	) {
		if err = failed; err == nil {
			for _, t := range response.Topics {
				for _, p := range t.Partitions {
					err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
				}
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
			for _, c := range t.Partitions {
				left := progressOf(c.Offset, c.Metadata)
				p := &partition{
					worker: w, at: topicPartition{t.Topic, c.Partition}, member: member, under: map[int64]*job{},
					marks: map[int64]mark{}, from: c.Offset, skip: left.Next, next: left.Next,
				}
				p.ctx, p.cancel = context.WithCancel(w.ctx) //nolint:fatcontext // each partition has its own
				for _, m := range left.Marks {
					p.marks[m.Offset] = m
				}
				w.partitions[p.at] = p
			}
		}
	}
	return nil
}

// revoked is called when partitions move to another worker, and when this one leaves.
func (w *worker) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	var attempts sync.WaitGroup
	w.each(partitions, func(p *partition) {
		p.cancel()
		attempts.Go(p.attempts.Wait)
	})
	patience, over := context.WithTimeout(w.life, w.patience)
	go func() {
		attempts.Wait()
		over()
	}()
	<-patience.Done() // attempts that go on count as lost
	// If this fails, what has ended since the last commit counts as lost.
	_ = w.flush()
	w.each(partitions, (*partition).forget)
}

// each calls f for the partitions among these that the worker has.
func (w *worker) each(partitions map[string][]int32, f func(*partition)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if p := w.partitions[topicPartition{topic, number}]; p != nil {
				f(p)
			}
		}
	}
}

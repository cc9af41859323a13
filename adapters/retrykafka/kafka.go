package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
)

const (
	startTime   = 30 * time.Second // of the brokers, until they answer the first question
	leavingTime = 8 * time.Second  // of the brokers, after the last attempt has ended
	pause       = time.Second      // after an error
)

var errExpelled = errors.New("the group has gone on without this worker") // and it joins again

// Retries consumes records under a policy. A literal with Options is ready to use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the topic of the
	// record: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one. A
	// record of a kind without a policy comes again after a second, and OnError is told.
	PolicyFor func(kind string) (*retry.Policy, error)

	Options []kgo.Opt // of the client: at least the brokers, the group and the topics

	// Parallel is how many records of a partition may run or wait at the same time, 32 at
	// most. 1 or less keeps their order: a record that waits for its retry holds up the others.
	Parallel int

	// Dead returns the dead letter topic of a topic. nil means the name of the topic and ".dead".
	Dead func(topic string) string

	// OnError is told what went wrong besides the records: a poll or a commit failed, a dead
	// letter did not have room for its error, no policy is known for a topic. It may be called
	// by several goroutines at once. nil means slog.Default().
	OnError func(ctx context.Context, err error)
}

// Run joins the group and calls fn, in several goroutines, for every record until ctx ends.
// Cancel ctx to stop: a deadline is a limit of the attempts, which fail by it. fn gets a child
// of ctx. When ctx has ended, Run waits for fn, for a third of the RebalanceTimeout at most,
// then for the brokers, for 10 seconds at most, and returns nil.
//
// Run returns an error if it cannot begin, because a field is wrong, a topic is forbidden or a
// dead letter topic is missing, or the brokers do not answer for 30 seconds. It returns an error
// later if it cannot go on: the group is forbidden, or a dead letter topic has taken no record
// for a minute. What goes wrong with one partition stops no other.
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
	alone      sync.RWMutex            // locked to send a dead letter in a batch of its own
	commits    sync.Mutex              // held during a commit; locked before mu
	mu         sync.Mutex              // guards all below, and the partitions
	partitions map[topicPartition]*partition
}

type topicPartition struct {
	topic     string
	partition int32
}

func (at topicPartition) String() string { return fmt.Sprintf("%s/%d", at.topic, at.partition) }

// run is Run for one membership of the group. Only the first is checked.
func (w *worker) run(ctx context.Context, first bool) (err error) {
	var committer sync.WaitGroup
	defer committer.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w.ctx, w.stop, w.life = ctx, stop, life
	w.mu.Lock() // callbacks wait until there is a client
	w.client, err = kgo.NewClient(slices.Concat([]kgo.Opt{kgo.ProducerBatchMaxBytes(maxLetter)}, w.Options, []kgo.Opt{
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.AllowIdempotentProduceCancellation(), kgo.RecordRetries(7), kgo.WithContext(life),
		kgo.OnOffsetsFetched(w.assigned), kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { w.forget(lost) }),
	})...)
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
			end()
			return err
		}
	}
	committer.Go(w.commitChanges)
	w.poll()
	w.mu.Lock()
	left := slices.Collect(maps.Values(w.partitions))
	w.mu.Unlock()
	w.await(left)
	time.AfterFunc(leavingTime, end)
	_ = w.client.LeaveGroupContext(life) // if it fails, the session times out
	return context.Cause(ctx)
}

// Validate reports what is wrong with the fields. Run calls it.
func (r *Retries) Validate() error {
	if r.Parallel > most {
		return fmt.Errorf("Retries.Parallel is %d: must be at most %d", r.Parallel, most)
	}
	return r.Policy.Validate()
}

// check returns an error if a field is wrong, or there is nowhere to put dead letters.
func (w *worker) check() error {
	regex, _ := w.client.OptValue(kgo.ConsumeRegex).(bool)
	switch err := w.Validate(); {
	case err != nil:
		return err
	case w.fn == nil:
		return errors.New("the function is nil")
	case regex:
		return nil // the topics are not known yet
	}
	request, isDead := kmsg.NewPtrMetadataRequest(), map[string]bool{}
	for _, topic := range w.client.GetConsumeTopics() {
		isDead[w.dead(topic)] = true
		for _, name := range []string{topic, w.dead(topic)} {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &name
			request.Topics = append(request.Topics, t)
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, startTime)
	defer cancel()
	response, err := request.RequestWith(ctx, w.client)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err != nil && t.Topic != nil && isDead[*t.Topic]:
			return fmt.Errorf("topic %s, for records that are given up: %w", *t.Topic, err)
		case errors.Is(err, kerr.TopicAuthorizationFailed) && t.Topic != nil:
			return fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
	}
	return nil
}

// fatal reports whether an error of a broker does not go away, and is not of one partition.
func fatal(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.GroupAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.FencedInstanceID,
		kerr.OffsetMetadataTooLarge, kerr.InvalidSessionTimeout, errExpelled,
	}, func(target error) bool { return errors.Is(err, target) })
}

// failed ends Run if an error is fatal, and tells of another one.
func (w *worker) failed(err error) {
	if fatal(err) {
		w.stop(err)
	} else {
		engine.Report(w.ctx, w.OnError, fmt.Errorf("retrykafka: %w", err))
	}
}

// poll hands records to their partitions until ctx ends.
func (w *worker) poll() {
	for w.ctx.Err() == nil {
		fetches := w.client.PollFetches(w.ctx)
		if w.ctx.Err() == nil {
			fetches.EachError(func(topic string, number int32, err error) {
				if errors.Is(err, kerr.UnknownTopicID) {
					w.renew(topic)
				}
				if topic != "" {
					err = fmt.Errorf("%v: %w", topicPartition{topic, number}, err)
				}
				w.failed(fmt.Errorf("poll: %w", err))
			})
		}
		w.mu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if p := w.partitions[topicPartition{f.Topic, f.Partition}]; p != nil {
				p.add(f.Records)
			}
		})
		w.mu.Unlock()
		w.client.AllowRebalance()
		w.wake()
	}
}

// renew has the group assign the partitions of a topic again because the brokers do not know
// them: the topic was deleted, and perhaps another one has its name by now.
func (w *worker) renew(topic string) {
	go func() { // it waits for the callbacks
		w.client.PurgeTopicsFromConsuming(topic)
		w.client.AddConsumeTopics(topic)
	}()
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
				w.open(topicPartition{t.Topic, c.Partition}, member, c.Offset, progressOf(c.Offset, c.Metadata))
			}
		}
	}
	return nil
}

// revoked is called when partitions move to another worker, and when this one leaves.
func (w *worker) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	w.mu.Lock()
	moving := w.among(partitions)
	for _, p := range moving {
		p.cancel()
	}
	w.mu.Unlock()
	w.await(moving) // attempts that go on count as lost
	var stuck []*job
	w.mu.Lock()
	for _, p := range moving {
		p.again = time.Time{}
		for j := range maps.Values(p.under) {
			if j.running {
				stuck = append(stuck, j)
			}
		}
	}
	w.mu.Unlock()
	for _, j := range stuck {
		w.failed(fmt.Errorf("%s: its work goes on %v after its context has ended, and its partition goes to another worker", j.source(), w.patience))
	}
	w.flush() // if this fails, what has ended since the last commit counts as lost
	w.forget(partitions)
}

// await waits until the attempts of partitions have ended, but not for ever.
func (w *worker) await(partitions []*partition) {
	patience, over := context.WithTimeout(w.life, w.patience)
	go func() {
		defer over()
		for _, p := range partitions {
			p.attempts.Wait()
		}
	}()
	<-patience.Done()
}

// forget drops partitions.
func (w *worker) forget(partitions map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.among(partitions) {
		p.close()
	}
}

// among returns the partitions among these that the worker has.
func (w *worker) among(partitions map[string][]int32) (found []*partition) {
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if p := w.partitions[topicPartition{topic, number}]; p != nil {
				found = append(found, p)
			}
		}
	}
	return found
}

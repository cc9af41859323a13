package retrykafka_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, 1, 1000) // which are one after the other, and so are the waits
}

func TestConformanceInParallel(t *testing.T) {
	t.Parallel()
	conform(t, 32, 10_000)
}

func conform(t *testing.T, parallel, jobs int) {
	t.Helper()
	enginetest.Run(t, &enginetest.Engine{
		Unit: 500 * time.Millisecond, Grain: 10 * time.Second, Jobs: jobs,
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, parallel)
		},
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error {
			return q.(*queue).submit(ctx, kind, job, kgo.RecordHeader{Key: "x", Value: make([]byte, 900_000)}) //nolint:forcetypeassert // see Open
		},
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			var all []kgo.RecordHeader
			for key, value := range headers {
				all = append(all, kgo.RecordHeader{Key: key, Value: []byte(value)})
			}
			return q.(*queue).submit(ctx, kind, job, all...) //nolint:forcetypeassert // see Open
		},
		DeadHeaders: func(_ context.Context, q enginetest.Queue, job string) (map[string]string, error) {
			return q.(*queue).headers(job), nil //nolint:forcetypeassert // see Open
		},
		OpenTwo: func(t testing.TB) (enginetest.Queue, func() (func() error, error)) {
			t.Helper()
			q := open(t, parallel)
			return q, q.refuseCommits
		},
		Cannot: map[string]enginetest.Instead{
			"context ignored for ever": {Why: "a partition is its worker's while that lives", Endless: true},
			"refused dead letter":      {Why: "it ends Run after a minute: TestDeadLettersTakeNothing"},
		},
	})
}

// TestCrash kills worker processes at random moments. The brokers are in the process of
// the test, which lives. The topic has as many partitions as workers, so that each has one
// record under way.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := openWith(t, 2, 1)
			return q, q.address
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, address: address, topics: []string{"kind-1"}, instance: instance(os.Getpid())}
		},
		Died: func(q enginetest.Queue, pids []int, _ []string) error {
			return q.(*queue).leave(instance(pids[len(pids)-1])) //nolint:forcetypeassert // see Open
		},
	}
	crash.Run(t)
}

func instance(pid int) string { return fmt.Sprintf("worker-%d", pid) }

// leave has a worker leave the group that has died. The group would find that after its
// session timeout.
func (q *queue) leave(instance string) error {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = "workers"
	member := kmsg.NewLeaveGroupRequestMember()
	member.InstanceID = &instance
	request.Members = append(request.Members, member)
	response, err := request.RequestWith(q.t.Context(), q.client)
	if err != nil {
		return err
	}
	if response.ErrorCode == kerr.GroupIDNotFound.Code { // with its last member, it had gone by itself
		return nil
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return err
	}
	for _, m := range response.Members {
		if m.ErrorCode != kerr.UnknownMemberID.Code { // it died before it joined
			return kerr.ErrorForCode(m.ErrorCode)
		}
	}
	return nil
}

// TestOutage has workers lose the brokers again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, 8)
		q.cable = cable
		return q
	}}
	outage.Run(t)
}

// queue is a cluster of its own, with a topic for each kind of jobs.
type queue struct {
	t        testing.TB
	address  string
	topics   []string
	instance string // of its workers, of which one lives at a time, so that the group does not wait for one that was killed
	parallel int
	cable    *enginetest.Cable            // of all workers
	told     func(context.Context, error) // by workers; may be nil
	cluster  *kfake.Cluster
	client   *kgo.Client

	records map[string]*kgo.Record

	mu        sync.Mutex
	committed map[string]map[int32]kmsg.OffsetFetchResponseGroupTopicPartition
	dead      map[string]string // the errors of dead letters
	letters   map[string]*kgo.Record
}

func open(t testing.TB, parallel int) *queue {
	t.Helper()
	return openWith(t, 8, parallel)
}

func openWith(t testing.TB, partitions int32, parallel int) *queue {
	t.Helper()
	q := &queue{
		t: t, topics: []string{"kind-1", "kind-2", "kind-3"}, instance: "worker", parallel: parallel, records: map[string]*kgo.Record{}, dead: map[string]string{}, letters: map[string]*kgo.Record{},
	}
	var err error
	q.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, q.topics...),
		kfake.SeedTopics(1, "kind-1.dead", "kind-2.dead", "kind-3.dead"))
	require.NoError(t, err)
	t.Cleanup(q.cluster.Close)
	q.address = q.cluster.ListenAddrs()[0]
	q.client = connect(t, q.cluster)
	dead := connect(t, q.cluster, kgo.ConsumeTopics("kind-1.dead", "kind-2.dead", "kind-3.dead"))
	go func() {
		for fetches := dead.PollFetches(context.Background()); !fetches.IsClientClosed(); {
			q.mu.Lock()
			for r := range fetches.RecordsAll() {
				q.dead[string(r.Value)], q.letters[string(r.Value)] = header(r, "retry-error"), r
			}
			q.mu.Unlock()
			fetches = dead.PollFetches(context.Background())
		}
	}()
	return q
}

// refuseCommits has the brokers refuse what is committed for the topic kind-1.
func (q *queue) refuseCommits() (mend func() error, err error) {
	var mended atomic.Bool
	id := q.cluster.TopicInfo("kind-1").TopicID
	q.cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if mended.Load() {
			return nil, nil, false
		}
		q.cluster.KeepControl()
		request := r.(*kmsg.OffsetCommitRequest) //nolint:forcetypeassert // by its key
		of := func(topic kmsg.OffsetCommitRequestTopic) bool { return topic.Topic == "kind-1" || topic.TopicID == id }
		if !slices.ContainsFunc(request.Topics, of) {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.OffsetCommitResponse) //nolint:forcetypeassert // by its key
		for _, topic := range request.Topics {
			answer := kmsg.NewOffsetCommitResponseTopic()
			answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				one := kmsg.NewOffsetCommitResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
				answer.Partitions = append(answer.Partitions, one)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	return func() error { mended.Store(true); return nil }, nil
}

func connect(t testing.TB, cluster *kfake.Cluster, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func (q *queue) Submit(ctx context.Context, kind, job string) error { return q.submit(ctx, kind, job) }

func (q *queue) submit(ctx context.Context, kind, job string, headers ...kgo.RecordHeader) (err error) {
	q.records[job], err = q.client.ProduceSync(ctx, &kgo.Record{
		Topic: kind, Key: []byte(job), Value: []byte(job), Headers: headers,
	}).First()
	return err
}

// headers returns the headers of a dead letter.
func (q *queue) headers(job string) map[string]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]string{}
	for _, h := range q.letters[job].Headers {
		all[h.Key] = string(h.Value)
	}
	return all
}

// Outcome asks what was committed. A job that has ended has succeeded if it is no dead
// letter.
func (q *queue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	r := q.records[job]
	if !q.ended(r) {
		if err := q.fetch(ctx); err != nil || !q.ended(r) {
			return enginetest.Outcome{}, err
		}
	}
	letters := int64(0)
	for _, topic := range q.topics {
		letters += q.cluster.PartitionInfo(topic+".dead", 0).HighWatermark
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if int64(len(q.dead)) < letters {
		return enginetest.Outcome{}, nil
	}
	if reason, dead := q.dead[job]; dead {
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: reason}, nil
	}
	return enginetest.Outcome{Status: enginetest.Succeeded}, nil
}

func (q *queue) ended(r *kgo.Record) bool {
	c, ok := q.committed[r.Topic][r.Partition]
	return ok && retrykafka.Ended(c.Offset, c.Metadata, r.Offset)
}

func (q *queue) fetch(ctx context.Context) error {
	request := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "workers"
	request.Groups = append(request.Groups, group)
	response, err := request.RequestWith(ctx, q.client)
	if err != nil {
		return err
	}
	q.committed = map[string]map[int32]kmsg.OffsetFetchResponseGroupTopicPartition{}
	for _, g := range response.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return err
		}
		for _, topic := range g.Topics {
			q.committed[topic.Topic] = map[int32]kmsg.OffsetFetchResponseGroupTopicPartition{}
			for _, p := range topic.Partitions {
				q.committed[topic.Topic][p.Partition] = p
			}
		}
	}
	return nil
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	cable := cmp.Or(q.cable, &enginetest.Cable{})
	retries := &retrykafka.Retries{
		Policy: p.Policy, PolicyFor: p.PolicyFor, Parallel: q.parallel, OnError: q.told, Options: []kgo.Opt{
			kgo.SeedBrokers(q.address), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics(q.topics...),
			kgo.Dialer(cable.DialContext), kgo.InstanceID(q.instance),
		},
	}
	return enginekit.Work(cable, false, func(ctx context.Context) error {
		return retries.Run(ctx, func(ctx context.Context, r *kgo.Record) error { return handle(ctx, string(r.Value)) })
	}), nil
}

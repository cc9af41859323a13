package retrykafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	group, jobs := kgo.ConsumerGroup("w"), kgo.ConsumeTopics("kind-1")
	for _, test := range []struct {
		retries retrykafka.Retries
		options []kgo.Opt
		want    string
	}{
		{retrykafka.Retries{Policy: &retry.Policy{MaxDelay: -time.Second}}, []kgo.Opt{group, jobs}, "-1s"},
		{options: []kgo.Opt{jobs}, want: "a group was not specified"},
		{options: []kgo.Opt{group, kgo.AutoCommitMarks()}, want: "marked autocommitting"},
		{options: []kgo.Opt{group, kgo.GreedyAutoCommit()}, want: "greedy autocommitting"},
		{options: []kgo.Opt{kgo.ShareGroup("w")}, want: "not applicable to share groups"},
		{
			options: []kgo.Opt{group, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"kind-1": {0: kgo.NewOffset()}})},
			want:    "direct-partition consuming",
		},
		{
			options: []kgo.Opt{group, kgo.ConsumeTopics("kind-1.dead")},
			want:    "topic kind-1.dead.dead, for records that are given up: UNKNOWN_TOPIC_OR_PARTITION",
		},
		{
			retries: retrykafka.Retries{Dead: func(topic string) string { return topic + "-dlq" }},
			options: []kgo.Opt{group, jobs},
			want:    "topic kind-1-dlq, for records that are given up: UNKNOWN_TOPIC_OR_PARTITION",
		},
		{retrykafka.Retries{Parallel: 33}, []kgo.Opt{group, jobs}, "Retries.Parallel is 33: must be at most 32"},
		{
			options: []kgo.Opt{group, jobs, kgo.TransactionalID("t")},
			want:    "transactional ID",
		},
	} {
		test.retries.Options = append(test.options, kgo.SeedBrokers(q.address))
		err := test.retries.Run(t.Context(), func(context.Context, *kgo.Record) error { return nil })
		require.ErrorContains(t, err, "retrykafka: ")
		assert.ErrorContains(t, err, test.want)
	}
	r := &retrykafka.Retries{Options: []kgo.Opt{group, jobs, kgo.SeedBrokers(q.address)}}
	assert.EqualError(t, r.Run(t.Context(), nil), "retrykafka: the function is nil")
}

// retriesOf returns Retries for the records of a queue.
func retriesOf(q *queue, p *retry.Policy, options ...kgo.Opt) *retrykafka.Retries {
	return &retrykafka.Retries{Policy: p, Parallel: q.parallel, Options: append(options,
		kgo.SeedBrokers(q.address), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("kind-1"))}
}

// run runs Retries until the test ends, and sends how Run ended.
func run(t *testing.T, q *queue, p *retry.Policy, fn func(context.Context, *kgo.Record) error) <-chan error {
	t.Helper()
	return runWith(t, retriesOf(q, p), fn)
}

func runWith(t *testing.T, r *retrykafka.Retries, fn func(context.Context, *kgo.Record) error) <-chan error {
	t.Helper()
	over := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		over <- r.Run(ctx, fn)
		close(over)
	}()
	t.Cleanup(func() {
		cancel()
		for range over {
		}
	})
	return over
}

// refuseDead has the dead letter topic refuse batches, which are given in bytes.
func refuseDead(q *queue, reason error, refuses func(size int) bool) {
	dead := q.cluster.TopicInfo("kind-1.dead").TopicID
	q.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		q.cluster.KeepControl()
		request := r.(*kmsg.ProduceRequest) //nolint:forcetypeassert // by its key
		topic := request.Topics[0]
		if topic.Topic != "kind-1.dead" && topic.TopicID != dead || !refuses(len(topic.Partitions[0].Records)) {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.ProduceResponse) //nolint:forcetypeassert // likewise
		refused := kmsg.NewProduceResponseTopic()
		refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.ErrorCode = reason.(*kerr.Error).Code //nolint:forcetypeassert // as it is
		refused.Partitions = append(refused.Partitions, partition)
		response.Topics = append(response.Topics, refused)
		return response, nil, true
	})
}

// A dead letter that is not taken ends Run, and the record is not passed over. One that is
// not idempotent does not run again for it.
func TestNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	for once, calls := range map[bool]int32{false: 2, true: 1} {
		t.Run(fmt.Sprintf("not idempotent=%v", once), func(t *testing.T) {
			t.Parallel()
			q := openWith(t, 1, 1)
			var accepts atomic.Bool
			refuseDead(q, kerr.MessageTooLarge, func(int) bool { return !accepts.Load() })
			require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
			p := &retry.Policy{NonIdempotent: once}
			var called atomic.Int32
			fail := func(context.Context, *kgo.Record) error {
				called.Add(1)
				return retry.MarkFinal(assert.AnError)
			}
			err := <-run(t, q, p, fail)
			require.ErrorIs(t, err, kerr.MessageTooLarge)
			assert.Regexp(t, `^retrykafka: kind-1/0/0: topic kind-1\.dead, for records that are given up: MESSAGE_TOO_LARGE`, err.Error())
			assert.Zero(t, testkit.Must(q.Outcome(t.Context(), "job-1"))(t))
			accepts.Store(true)
			run(t, q, p, fail)
			assert.Equal(t, enginetest.GaveUp, enginekit.Await(t, q, "job-1").Status)
			assert.Equal(t, calls, called.Load())
		})
	}
}

// A crash that a worker could not judge, because its first commit failed and then it was
// shut down, is left to the next one.
func TestLossIsHandedOn(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	offset, metadata := retrykafka.Commit(retrykafka.Progress{Next: 1, Marks: []retrykafka.Mark{{Running: true}}})
	commit(t, q, offset, metadata)
	r := retriesOf(q, nil)
	ctx, shutdown := context.WithCancel(t.Context())
	q.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		shutdown()
		return nil, assert.AnError, true
	})
	require.NoError(t, r.Run(ctx, func(context.Context, *kgo.Record) error {
		assert.Fail(t, "the record has run")
		return nil
	}))
	require.NoError(t, q.fetch(t.Context()))
	if c := q.committed["kind-1"][0]; assert.NotNil(t, c.Metadata) {
		left := retrykafka.ProgressOf(c.Offset, c.Metadata)
		if assert.Len(t, left.Marks, 1) {
			assert.True(t, left.Marks[0].Running)
			assert.Zero(t, retry.State(left.Marks[0].State).Failures)
		}
	}
}

// A record that fails holds up those behind it, and in parallel it does not.
func TestOrder(t *testing.T) {
	t.Parallel()
	for parallel, want := range map[int]string{0: `^(first ){3}second third$`, 2: `third.* first first$`} {
		t.Run(fmt.Sprintf("parallel=%d", parallel), func(t *testing.T) {
			t.Parallel()
			q := open(t, parallel)
			for _, value := range []string{"first", "second", "third"} {
				r := &kgo.Record{Topic: "kind-1", Key: []byte("same"), Value: []byte(value)}
				require.NoError(t, q.client.ProduceSync(t.Context(), r).FirstErr())
			}
			var mu sync.Mutex
			var calls []string
			run(t, q, &retry.Policy{Backoff: retry.Constant(time.Second)}, func(_ context.Context, r *kgo.Record) error {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, string(r.Value))
				if string(r.Value) == "first" && strings.Count(strings.Join(calls, " "), "first") < 3 {
					return errors.New("boom")
				}
				return nil
			})
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(calls) == 5
			}, time.Minute, 10*time.Millisecond)
			assert.Regexp(t, want, strings.Join(calls, " "))
		})
	}
}

// A dead letter has the headers and the time of the record, and our own headers once.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	dead := connect(t, q.cluster, kgo.ConsumeTopics("kind-1.dead"))
	headers := []kgo.RecordHeader{{Key: "trace", Value: []byte("t1")}, {Key: "retry-policy"}, {Key: "trace", Value: []byte("t2")}}
	r := &kgo.Record{
		Topic: "kind-1", Key: []byte("key"), Value: []byte("value"), Timestamp: time.UnixMilli(1_700_000_000_000),
		Headers: append(headers[:3:3], kgo.RecordHeader{Key: "retry-error", Value: []byte("old")}),
	}
	require.NoError(t, q.client.ProduceSync(t.Context(), r).FirstErr())
	run(t, q, &retry.Policy{MaxAttempts: 1}, func(context.Context, *kgo.Record) error { return errors.New("boom") })
	letter := dead.PollFetches(t.Context()).Records()[0]
	assert.Equal(t, "key", string(letter.Key))
	assert.Equal(t, "value", string(letter.Value))
	assert.True(t, r.Timestamp.Equal(letter.Timestamp), letter.Timestamp)
	require.Len(t, letter.Headers, 5)
	assert.Equal(t, headers, letter.Headers[:3])
	assert.Equal(t, "failed after 1 attempt: boom", header(letter, "retry-error"))
	assert.Equal(t, fmt.Sprintf("kind-1/%d/0", r.Partition), header(letter, "retry-source"))
}

// A worker that joins takes partitions over. What runs there is interrupted, not counted,
// and goes on with the new one.
func TestRebalance(t *testing.T) {
	t.Parallel()
	q := open(t, 4)
	const jobs = 64
	for i := range jobs {
		require.NoError(t, q.Submit(t.Context(), "kind-1", fmt.Sprintf("job-%d", i)))
	}
	policy := &retry.Policy{MaxAttempts: 1} // an interruption that was counted would end the job
	interrupted, first := make(chan string, jobs), make(chan struct{}, jobs)
	run(t, q, policy, func(ctx context.Context, r *kgo.Record) error {
		first <- struct{}{}
		<-ctx.Done()
		interrupted <- string(r.Value)
		return ctx.Err()
	})
	<-first
	taken := make(chan string, jobs)
	run(t, q, policy, func(_ context.Context, r *kgo.Record) error {
		taken <- string(r.Value)
		return nil
	})
	job := <-taken
	enginekit.Await(t, q, job)
	assert.NotEmpty(t, interrupted)
	assert.Zero(t, q.cluster.PartitionInfo("kind-1.dead", 0).HighWatermark)
}

// Topics that match a pattern later have their dead letters too.
func TestRegex(t *testing.T) {
	t.Parallel()
	cluster := testkit.Must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a.jobs", "a.jobs.dead")))(t)
	t.Cleanup(cluster.Close)
	require.NoError(t, connect(t, cluster).ProduceSync(t.Context(), &kgo.Record{Topic: "a.jobs"}).FirstErr())
	r := &retrykafka.Retries{Policy: &retry.Policy{MaxAttempts: 1}, Options: []kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumerGroup("workers"), kgo.ConsumeRegex(),
		kgo.ConsumeTopics(`.*\.jobs$`),
	}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- r.Run(ctx, func(context.Context, *kgo.Record) error { return assert.AnError })
	}()
	fetches := connect(t, cluster, kgo.ConsumeTopics("a.jobs.dead")).PollFetches(t.Context())
	assert.Equal(t, 1, fetches.NumRecords())
	cancel()
	assert.NoError(t, <-over)
}

// commit commits for the group, before it has members.
func commit(t *testing.T, q *queue, offset int64, metadata string) {
	t.Helper()
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = "workers", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "kind-1", q.cluster.TopicInfo("kind-1").TopicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = offset, &metadata
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	testkit.Must(request.RequestWith(t.Context(), q.client))(t)
}

// After an unclean election the log may end before what the group has committed. What is
// written then is new.
func TestLogHasLostItsEnd(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	for i := range 3 {
		require.NoError(t, q.Submit(t.Context(), "kind-1", fmt.Sprintf("job-%d", i)))
	}
	commit(t, q, 10, "")
	seen := make(chan int64, 10)
	run(t, q, nil, func(_ context.Context, r *kgo.Record) error {
		seen <- r.Offset
		return nil
	})
	for i := range int64(3) {
		assert.Equal(t, i, testkit.Soon(t, seen))
	}
	require.Eventually(t, func() bool {
		require.NoError(t, q.fetch(t.Context()))
		return q.committed["kind-1"][0].Offset == 3
	}, 10*time.Second, 10*time.Millisecond)
}

// Attempts have a third of the RebalanceTimeout to end at shutdown.
func TestSlowShutdown(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	r := retriesOf(q, nil)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.Run(ctx, func(ctx context.Context, _ *kgo.Record) error {
		cancel()
		<-ctx.Done()
		time.Sleep(11 * time.Second) // longer than leaving the group may take without it
		return ctx.Err()
	}))
	require.NoError(t, q.fetch(t.Context()))
	if c := q.committed["kind-1"][0]; assert.NotNil(t, c.Metadata) {
		assert.NotContains(t, *c.Metadata, `"r":true`)
		assert.Contains(t, *c.Metadata, `"o":0`)
	}
	assert.Empty(t, members(t, q))
}

// members returns who is in the group.
func members(t *testing.T, q *queue) (ids []string) {
	t.Helper()
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{"workers"}
	response := testkit.Must(request.RequestWith(t.Context(), q.client))(t)
	for _, m := range response.Groups[0].Members {
		ids = append(ids, m.MemberID)
	}
	return ids
}

// A worker that was expelled in an attempt, and whose commit is the first to learn it,
// does not overwrite what its successor has committed.
func TestExpelled(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	worker := func(heartbeat time.Duration, fn func(context.Context, *kgo.Record) error) {
		r := retriesOf(q, &retry.Policy{Backoff: retry.Constant(0)}, kgo.HeartbeatInterval(heartbeat))
		all.Go(func() { assert.NoError(t, r.Run(ctx, fn)) })
	}
	begun, release, succeeded := make(chan string), make(chan struct{}), make(chan string, 10)
	var once sync.Once
	worker(20*time.Second, func(_ context.Context, r *kgo.Record) error {
		if string(r.Value) == "job-1" {
			once.Do(func() { close(begun) })
			<-release
			return assert.AnError
		}
		succeeded <- string(r.Value)
		return nil
	})
	testkit.Soon(t, begun)
	time.Sleep(time.Second) // the first heartbeat comes early
	expel(t, q)
	worker(time.Second, func(_ context.Context, r *kgo.Record) error {
		succeeded <- string(r.Value)
		return nil
	})
	assert.Equal(t, "job-1", testkit.Soon(t, succeeded))
	committed := func() int64 {
		require.NoError(t, q.fetch(t.Context()))
		return q.committed["kind-1"][0].Offset
	}
	require.Eventually(t, func() bool { return committed() == 1 }, 10*time.Second, 10*time.Millisecond)
	close(release)
	for range 80 {
		require.EqualValues(t, 1, committed())
		time.Sleep(100 * time.Millisecond)
	}
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-2"))
	assert.Equal(t, "job-2", testkit.Soon(t, succeeded))
}

// A worker that knows that it has lost a partition writes no dead letter of it any more.
func TestLateEnd(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	begun, release, late := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	work := func(ctx context.Context, _ *kgo.Record) error {
		if !first.CompareAndSwap(false, true) {
			return nil
		}
		defer close(late)
		close(begun)
		<-ctx.Done() // the partition is lost
		<-release
		return retry.MarkFinal(assert.AnError)
	}
	r := retriesOf(q, &retry.Policy{Backoff: retry.Constant(0)}, kgo.HeartbeatInterval(100*time.Millisecond))
	runWith(t, r, work)
	<-begun
	expel(t, q)
	assert.Equal(t, enginetest.Succeeded, enginekit.Await(t, q, "job-1").Status)
	close(release)
	<-late
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-2"))
	assert.Equal(t, enginetest.Succeeded, enginekit.Await(t, q, "job-2").Status)
	mark := &kgo.Record{Topic: "kind-1.dead", Value: []byte("the last")}
	require.NoError(t, q.client.ProduceSync(t.Context(), mark).FirstErr())
	seen := func(value string) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.letters[value] != nil
	}
	require.Eventually(t, func() bool { return seen("the last") }, 30*time.Second, 10*time.Millisecond)
	assert.False(t, seen("job-1"))
}

// expel removes all members from the group.
func expel(t *testing.T, q *queue) {
	t.Helper()
	for _, id := range members(t, q) {
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Group = "workers"
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		request.Members = append(request.Members, m)
		testkit.Must(request.RequestWith(t.Context(), q.client))(t)
	}
}

// A record without a policy waits for one. Other topics go on.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	var said enginekit.Said
	q.told = func(_ context.Context, err error) { said.Hear(err) }
	others := 0
	enginekit.NoPolicy(t, q, true, func() string {
		text := said.Next()
		if text != "" {
			others++
			other := fmt.Sprint("other-", others)
			require.NoError(t, q.Submit(t.Context(), "kind-1", other))
			assert.Equal(t, enginetest.Succeeded, enginekit.Await(t, q, other).Status)
		}
		return text
	})
	assert.GreaterOrEqual(t, others, 2)
}

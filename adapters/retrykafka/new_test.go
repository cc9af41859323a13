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
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy  *retry.Policy
		options []kgo.Opt
		want    string
	}{
		{policy: &retry.Policy{MaxDelay: -time.Second}, want: "-1s"},
		{want: "a group was not specified"},
		{options: []kgo.Opt{kgo.ConsumerGroup("w"), kgo.AutoCommitMarks()}, want: "marked autocommitting"},
		{options: []kgo.Opt{kgo.ConsumerGroup("w"), kgo.GreedyAutoCommit()}, want: "greedy autocommitting"},
		{options: []kgo.Opt{kgo.ShareGroup("w")}, want: "not applicable to share groups"},
		{
			options: []kgo.Opt{
				kgo.ConsumerGroup("w"), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"jobs": {0: kgo.NewOffset()}}),
			},
			want: "direct-partition consuming",
		},
	}
	for _, test := range tests {
		_, err := retrykafka.New(test.policy, test.options...)
		require.ErrorContains(t, err, "retrykafka: ")
		assert.ErrorContains(t, err, test.want)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	tests := []struct {
		options []kgo.Opt
		change  func(*retrykafka.Retries)
		want    string
	}{
		{
			[]kgo.Opt{kgo.ConsumeTopics("jobs.dead")},
			nil,
			"retrykafka: topic jobs.dead.dead, for records that are given up: UNKNOWN_TOPIC_OR_PARTITION",
		},
		{
			[]kgo.Opt{kgo.ConsumeTopics("jobs")},
			func(r *retrykafka.Retries) { r.DeadSuffix = "-dlq" },
			"retrykafka: topic jobs-dlq, for records that are given up: UNKNOWN_TOPIC_OR_PARTITION",
		},
		{
			[]kgo.Opt{kgo.ConsumeTopics("jobs")},
			func(r *retrykafka.Retries) { r.Parallel = 33 },
			"retrykafka: retries.Parallel is 33: must be at most 32",
		},
		{
			[]kgo.Opt{kgo.ConsumeTopics("jobs"), kgo.TransactionalID("t")},
			nil,
			`retrykafka: option TransactionalID is "t": must not be set`,
		},
	}
	for _, test := range tests {
		r, err := retrykafka.New(nil, append(test.options, kgo.SeedBrokers(q.address), kgo.ConsumerGroup("x"))...)
		require.NoError(t, err)
		if test.change != nil {
			test.change(r)
		}
		nothing := func(context.Context, *kgo.Record) error { return nil }
		require.ErrorContains(t, r.Run(t.Context(), nothing), test.want)
		assert.EqualError(t, r.Run(t.Context(), nil), "retrykafka: the function is nil")
	}
}

// run runs Retries until the test ends, and sends how Run ended.
func run(t *testing.T, q *queue, p *retry.Policy, fn func(context.Context, *kgo.Record) error) <-chan error {
	t.Helper()
	r, err := retrykafka.New(p, kgo.SeedBrokers(q.address), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"))
	require.NoError(t, err)
	r.Parallel = q.parallel
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

// refuseDead has the dead letter topic take nothing until the function returned is called.
func refuseDead(q *queue) (accept func()) {
	dead := q.cluster.TopicInfo("jobs.dead").TopicID
	var accepts atomic.Bool
	q.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		q.cluster.KeepControl()
		request := r.(*kmsg.ProduceRequest) //nolint:forcetypeassert // by its key
		if topic := request.Topics[0]; accepts.Load() || topic.Topic != "jobs.dead" && topic.TopicID != dead {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.ProduceResponse) //nolint:forcetypeassert // likewise
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = request.Topics[0].Topic, request.Topics[0].TopicID
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.ErrorCode = kerr.MessageTooLarge.Code
		topic.Partitions = append(topic.Partitions, partition)
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	return func() { accepts.Store(true) }
}

// A dead letter that is not taken ends Run, and the record is not passed over. One that is
// not idempotent does not run again for it.
func TestNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	for once, calls := range map[bool]int32{false: 2, true: 1} {
		t.Run(fmt.Sprintf("not idempotent=%v", once), func(t *testing.T) {
			t.Parallel()
			q := openWith(t, 1, 1)
			accept := refuseDead(q)
			require.NoError(t, q.Submit(t.Context(), nil, "job-1"))
			p := &retry.Policy{NonIdempotent: once}
			var called atomic.Int32
			fail := func(context.Context, *kgo.Record) error {
				called.Add(1)
				return retry.MarkFinal(assert.AnError)
			}
			err := <-run(t, q, p, fail)
			require.ErrorIs(t, err, kerr.MessageTooLarge)
			assert.Regexp(t, `^retrykafka: jobs/0/0: topic jobs\.dead: MESSAGE_TOO_LARGE`, err.Error())
			o, err := q.Outcome(t.Context(), "job-1")
			require.NoError(t, err)
			assert.Zero(t, o)
			accept()
			run(t, q, p, fail)
			require.Eventually(t, func() bool {
				o, err = q.Outcome(t.Context(), "job-1")
				return err == nil && o.Status == enginetest.GaveUp
			}, time.Minute, 10*time.Millisecond)
			assert.Equal(t, calls, called.Load())
		})
	}
}

// A crash that a worker could not judge, because its first commit failed and then it was
// shut down, is left to the next one.
func TestLossIsHandedOn(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), nil, "job-1"))
	offset, metadata, err := retrykafka.Commit(retrykafka.Progress{Next: 1, Marks: []retrykafka.Mark{{Running: true}}})
	require.NoError(t, err)
	commit(t, q, offset, metadata)
	r, err := retrykafka.New(nil, kgo.SeedBrokers(q.address), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"))
	require.NoError(t, err)
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
	if c := q.committed[0]; assert.NotNil(t, c.Metadata) {
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
				r := &kgo.Record{Topic: "jobs", Key: []byte("same"), Value: []byte(value)}
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

// A dead letter has the headers of the record, and our own once.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	q := open(t, 1)
	dead := connect(t, q.cluster, kgo.ConsumeTopics("jobs.dead"))
	r := &kgo.Record{Topic: "jobs", Key: []byte("key"), Value: []byte("value"), Headers: []kgo.RecordHeader{
		{Key: "trace", Value: []byte("t1")}, {Key: "retry-error", Value: []byte("old")},
	}}
	require.NoError(t, q.client.ProduceSync(t.Context(), r).FirstErr())
	run(t, q, &retry.Policy{MaxAttempts: 1}, func(context.Context, *kgo.Record) error { return errors.New("boom") })
	letter := dead.PollFetches(t.Context()).Records()[0]
	assert.Equal(t, "key", string(letter.Key))
	assert.Equal(t, "value", string(letter.Value))
	require.Len(t, letter.Headers, 3)
	assert.Equal(t, "t1", header(letter, "trace"))
	assert.Equal(t, "failed after 1 attempt: boom", header(letter, "retry-error"))
	assert.Equal(t, fmt.Sprintf("jobs/%d/0", r.Partition), header(letter, "retry-source"))
}

// A worker that joins takes partitions over. What runs there is interrupted, not counted,
// and goes on with the new one.
func TestRebalance(t *testing.T) {
	t.Parallel()
	q := open(t, 4)
	const jobs = 64
	for i := range jobs {
		require.NoError(t, q.Submit(t.Context(), nil, fmt.Sprintf("job-%d", i)))
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
	require.Eventually(t, func() bool {
		o, err := q.Outcome(t.Context(), job)
		return err == nil && o.Status != 0
	}, time.Minute, 10*time.Millisecond)
	assert.NotEmpty(t, interrupted)
	assert.Zero(t, q.cluster.PartitionInfo("jobs.dead", 0).HighWatermark)
}

// Topics that match a pattern later have their dead letters too.
func TestRegex(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a.jobs", "a.jobs.dead"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	require.NoError(t, connect(t, cluster).ProduceSync(t.Context(), &kgo.Record{Topic: "a.jobs"}).FirstErr())
	r, err := retrykafka.New(&retry.Policy{MaxAttempts: 1}, kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.ConsumerGroup("workers"), kgo.ConsumeRegex(), kgo.ConsumeTopics(`.*\.jobs$`))
	require.NoError(t, err)
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
	topic.Topic, topic.TopicID = "jobs", q.cluster.TopicInfo("jobs").TopicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = offset, &metadata
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	_, err := request.RequestWith(t.Context(), q.client)
	require.NoError(t, err)
}

// After an unclean election the log may end before what the group has committed. What is
// written then is new.
func TestLogHasLostItsEnd(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	for i := range 3 {
		require.NoError(t, q.Submit(t.Context(), nil, fmt.Sprintf("job-%d", i)))
	}
	commit(t, q, 10, "")
	seen := make(chan int64, 10)
	run(t, q, nil, func(_ context.Context, r *kgo.Record) error {
		seen <- r.Offset
		return nil
	})
	for i := range int64(3) {
		select {
		case offset := <-seen:
			assert.Equal(t, i, offset)
		case <-time.After(30 * time.Second):
			require.Fail(t, "the record does not come")
		}
	}
	require.Eventually(t, func() bool {
		require.NoError(t, q.fetch(t.Context()))
		return q.committed[0].Offset == 3
	}, 10*time.Second, 10*time.Millisecond)
}

// Attempts have a third of the RebalanceTimeout to end at shutdown.
func TestSlowShutdown(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	require.NoError(t, q.Submit(t.Context(), nil, "job-1"))
	r, err := retrykafka.New(nil, kgo.SeedBrokers(q.address), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.Run(ctx, func(ctx context.Context, _ *kgo.Record) error {
		cancel()
		<-ctx.Done()
		time.Sleep(11 * time.Second) // longer than leaving the group may take without it
		return ctx.Err()
	}))
	require.NoError(t, q.fetch(t.Context()))
	if c := q.committed[0]; assert.NotNil(t, c.Metadata) {
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
	response, err := request.RequestWith(t.Context(), q.client)
	require.NoError(t, err)
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
	require.NoError(t, q.Submit(t.Context(), nil, "job-1"))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	worker := func(heartbeat time.Duration, fn func(context.Context, *kgo.Record) error) {
		r, err := retrykafka.New(&retry.Policy{Backoff: retry.Constant(0)}, kgo.SeedBrokers(q.address),
			kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.HeartbeatInterval(heartbeat))
		require.NoError(t, err)
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
	next := func(c <-chan string) string {
		select {
		case job := <-c:
			return job
		case <-time.After(time.Minute):
			require.Fail(t, "the record does not come")
			return ""
		}
	}
	next(begun)
	time.Sleep(time.Second) // the first heartbeat comes early
	for _, id := range members(t, q) {
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Group = "workers"
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		request.Members = append(request.Members, m)
		_, err := request.RequestWith(t.Context(), q.client)
		require.NoError(t, err)
	}
	worker(time.Second, func(_ context.Context, r *kgo.Record) error {
		succeeded <- string(r.Value)
		return nil
	})
	assert.Equal(t, "job-1", next(succeeded))
	committed := func() int64 {
		require.NoError(t, q.fetch(t.Context()))
		return q.committed[0].Offset
	}
	require.Eventually(t, func() bool { return committed() == 1 }, 10*time.Second, 10*time.Millisecond)
	close(release)
	for range 80 {
		require.EqualValues(t, 1, committed())
		time.Sleep(100 * time.Millisecond)
	}
	require.NoError(t, q.Submit(t.Context(), nil, "job-2"))
	assert.Equal(t, "job-2", next(succeeded))
}

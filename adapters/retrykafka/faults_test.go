package retrykafka_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// silence is a network that carries nothing any more once a request of a kind was sent.
type silence struct {
	key   int16
	begun chan struct{}
	once  sync.Once
}

type silentConn struct {
	net.Conn
	*silence
}

func (s *silence) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return silentConn{conn, s}, err
}

func (s *silence) has() bool {
	select {
	case <-s.begun:
		return true
	default:
		return false
	}
}

// Write gets a request at a time.
func (c silentConn) Write(b []byte) (int, error) {
	if len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == c.key { //nolint:gosec // as sent
		c.once.Do(func() { close(c.begun) })
	}
	if c.has() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c silentConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.has() {
			return n, err
		}
	}
}

// However the brokers fall silent, Run returns within the documented time, with the client's
// defaults: after 10 seconds, or 30 if a dead letter is on the way.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, kind := range []kmsg.Key{
		kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets,
		kmsg.Fetch, kmsg.OffsetCommit, kmsg.InitProducerID, kmsg.Produce, kmsg.Heartbeat, kmsg.LeaveGroup,
	} {
		t.Run(kind.Name(), func(t *testing.T) {
			t.Parallel()
			q := openWith(t, 1, 4)
			for i := range 5 {
				require.NoError(t, q.Submit(t.Context(), "kind-1", fmt.Sprintf("job-%d", i)))
			}
			s := &silence{key: kind.Int16(), begun: make(chan struct{})}
			r := retriesOf(q, &retry.Policy{MaxAttempts: 1}, kgo.Dialer(s.dial))
			r.OnError = func(context.Context, error) {}
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() {
				over <- r.Run(ctx, func(ctx context.Context, r *kgo.Record) error {
					if string(r.Value) == "job-0" {
						return assert.AnError
					}
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			if kind != kmsg.LeaveGroup {
				<-s.begun
			} else {
				require.Eventually(t, func() bool { return q.cluster.PartitionInfo("kind-1.dead", 0).HighWatermark == 1 }, time.Minute, 10*time.Millisecond)
			}
			begun := time.Now()
			cancel()
			select {
			case err := <-over:
				require.NoError(t, err)
				t.Logf("silent at %s: Run returned after %v", kind.Name(), time.Since(begun).Round(100*time.Millisecond))
			case <-time.After(40 * time.Second): // 30, and what a busy machine adds
				assert.Fail(t, "Run has not returned")
			}
		})
	}
}

// tell has the errors of a Retries kept, and returns a function that finds the first with a text.
func tell(r *retrykafka.Retries) func(text string) error {
	var mu sync.Mutex
	var told []error
	r.OnError = func(_ context.Context, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}
	return func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		for _, err := range told {
			if strings.Contains(err.Error(), text) {
				return err
			}
		}
		return nil
	}
}

// A topic that is deleted holds up no other, not even one whose attempts must not be repeated.
// If it is made again, its new records run.
func TestDeletedTopic(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	succeeded, failed := make(chan string, 100), make(chan struct{}, 100)
	r := retriesOf(q, &retry.Policy{Backoff: retry.Constant(time.Second), NonIdempotent: true})
	r.Options = append(r.Options, kgo.ConsumeTopics("kind-1", "kind-2"))
	told := tell(r)
	runWith(t, r, func(_ context.Context, r *kgo.Record) error {
		if string(r.Value) == "waits" {
			failed <- struct{}{}
			return retry.MarkRateLimited(assert.AnError, time.Second)
		}
		succeeded <- string(r.Value)
		return nil
	})
	require.NoError(t, q.Submit(t.Context(), "kind-2", "waits"))
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	require.Equal(t, "job-1", testkit.Soon(t, succeeded))
	<-failed
	require.NoError(t, q.cluster.DeleteTopic("kind-2"))
	require.Eventually(t, func() bool { return told("kind-2") != nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-2"))
	require.Equal(t, "job-2", testkit.Soon(t, succeeded))

	require.NoError(t, q.cluster.CreateTopic("kind-2", 1, nil))
	require.NoError(t, connect(t, q.cluster).ProduceSync(t.Context(), &kgo.Record{Topic: "kind-2", Value: []byte("new")}).FirstErr())
	require.Equal(t, "new", testkit.Soon(t, succeeded))
	assert.NoError(t, told("kind-1"))
}

// A poll that fails is told, and another one follows.
func TestFailedPoll(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	q.cluster.ControlKey(int16(kmsg.JoinGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		response := r.ResponseKind().(*kmsg.JoinGroupResponse) //nolint:forcetypeassert // by its key
		response.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return response, nil, true
	})
	r := retriesOf(q, nil)
	told := tell(r)
	succeeded := make(chan struct{})
	runWith(t, r, func(context.Context, *kgo.Record) error {
		close(succeeded)
		return nil
	})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	<-succeeded
	assert.ErrorIs(t, told("retrykafka: poll: "), kerr.InconsistentGroupProtocol)
}

// A dead letter that its topic refuses is sent in the next smaller form, and the partition goes
// on. A form is refused twice if it was in a batch.
func TestFormsOfDeadLetters(t *testing.T) {
	t.Parallel()
	reason := strings.Repeat("x", 9000)
	for _, test := range []struct {
		refusals       int
		reason         error
		err            int // length of the header
		source, record bool
		told           string
	}{
		{0, kerr.MessageTooLarge, 8192, true, true, ""},
		{1, kerr.MessageTooLarge, 8192, true, true, ""}, // perhaps another one of its batch was refused
		{2, kerr.MessageTooLarge, 256, true, true, "with the beginning of its error"},
		{3, kerr.MessageTooLarge, 0, true, true, "without its error"},
		{4, kerr.InvalidTimestamp, 0, false, true, "without retry-error and retry-source"},
		{5, kerr.InvalidRecord, 256, true, false, "without the record itself, which stays where it is"},
	} {
		t.Run(fmt.Sprint(test.refusals), func(t *testing.T) {
			t.Parallel()
			q := openWith(t, 1, 1)
			dead := connect(t, q.cluster, kgo.ConsumeTopics("kind-1.dead"))
			n := 0
			refuseDead(q, test.reason, func(int) bool { n++; return n <= test.refusals })
			require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
			require.NoError(t, q.Submit(t.Context(), "kind-1", "job-2"))
			r := retriesOf(q, nil)
			told := tell(r)
			runWith(t, r, func(context.Context, *kgo.Record) error { return retry.MarkFinal(errors.New(reason)) })
			letter := dead.PollFetches(t.Context()).Records()[0]
			assert.Len(t, header(letter, "retry-error"), test.err)
			assert.Equal(t, test.source, header(letter, "retry-source") == "kind-1/0/0")
			assert.Equal(t, test.record, string(letter.Key) == "job-1" && string(letter.Value) == "job-1")
			require.Eventually(t, func() bool {
				o, err := q.Outcome(t.Context(), "job-2")
				return err == nil && o.Status != 0 && (test.told == "" || told(test.told) != nil)
			}, time.Minute, 10*time.Millisecond)
			if test.told != "" {
				assert.ErrorContains(t, told(test.told), "kind-1/0/0: topic kind-1.dead ")
				assert.ErrorContains(t, told(test.told), reason[:8192])
			}
		})
	}
}

// The brokers refuse a batch as a whole. That a letter is too large is no reason to take the
// error from another one.
func TestLargeLetterAmongOthers(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 8)
	const limit = 60_000
	refuseDead(q, kerr.MessageTooLarge, func(size int) bool { return size > limit })
	large := make([]byte, limit)
	_, _ = rand.Read(large)
	for i := range 8 {
		r := &kgo.Record{Topic: "kind-1", Value: []byte("small")}
		if i == 3 {
			r.Value = large
		}
		require.NoError(t, q.client.ProduceSync(t.Context(), r).FirstErr())
	}
	dead := connect(t, q.cluster, kgo.ConsumeTopics("kind-1.dead"))
	r := retriesOf(q, nil, kgo.ProducerLinger(100*time.Millisecond))
	told := tell(r)
	reason := strings.Repeat("x", 5000)
	runWith(t, r, func(context.Context, *kgo.Record) error { return retry.MarkFinal(errors.New(reason)) })
	for n := 0; n < 8; {
		for r := range dead.PollFetches(t.Context()).RecordsAll() {
			n++
			if want := "kind-1/0/3"; string(r.Key) == want {
				assert.Equal(t, want, header(r, "retry-source"))
			} else {
				assert.Equal(t, reason, header(r, "retry-error"))
			}
		}
	}
	require.Eventually(t, func() bool { return told("kind-1/0/3") != nil }, time.Minute, 10*time.Millisecond)
}

// A dead letter topic that takes nothing ends Run: at once if that does not change, and else after
// a minute. The error says why. So it is too if several records have such letters.
func TestDeadLettersTakeNothing(t *testing.T) {
	t.Parallel()
	for reason, most := range map[error]time.Duration{
		kerr.TopicAuthorizationFailed: 20 * time.Second,
		kerr.NotEnoughReplicas:        80 * time.Second, // a minute, and what a busy machine adds
	} {
		t.Run(reason.(*kerr.Error).Message, func(t *testing.T) { //nolint:forcetypeassert // as it is
			t.Parallel()
			q := openWith(t, 1, 1)
			refuseDead(q, reason, func(int) bool { return true })
			for i := range 3 {
				require.NoError(t, q.Submit(t.Context(), "kind-1", fmt.Sprintf("job-%d", i)))
			}
			begun := time.Now()
			over := run(t, q, nil, func(context.Context, *kgo.Record) error { return retry.MarkFinal(assert.AnError) })
			select {
			case err := <-over:
				t.Logf("Run returned after %v", time.Since(begun).Round(100*time.Millisecond))
				require.ErrorContains(t, err, "retrykafka: kind-1/0/0: topic kind-1.dead, for records that are given up: ")
				require.ErrorIs(t, err, reason)
			case <-time.After(most):
				require.Fail(t, "Run has not returned")
			}
		})
	}
}

// Records that wait have a limit in bytes.
func TestLargeRecordsWait(t *testing.T) {
	t.Parallel()
	q := openWith(t, 1, 1)
	const all, most = 140, 64 + 2*20 // and a fetch before fetching stops, and one that is dropped
	for range all {
		require.NoError(t, q.client.ProduceSync(t.Context(), &kgo.Record{Topic: "kind-1", Value: make([]byte, 1_000_000-1000)}).FirstErr())
	}
	c := &counter{}
	release := make(chan struct{})
	var n atomic.Int32
	r := retriesOf(q, nil, kgo.WithHooks(c))
	runWith(t, r, func(context.Context, *kgo.Record) error {
		<-release
		n.Add(1)
		return nil
	})
	require.Eventually(t, func() bool { return c.n.Load() >= 66 }, time.Minute, 10*time.Millisecond)
	time.Sleep(2 * time.Second) // it must not go on
	assert.LessOrEqual(t, c.n.Load(), int32(most))
	close(release)
	require.Eventually(t, func() bool { return n.Load() == all }, time.Minute, 10*time.Millisecond)
}

// counter counts the records that were polled.
type counter struct{ n atomic.Int32 }

func (c *counter) OnFetchRecordUnbuffered(_ *kgo.Record, polled bool) {
	if polled {
		c.n.Add(1)
	}
}

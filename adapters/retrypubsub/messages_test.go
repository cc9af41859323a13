package retrypubsub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// retriesOf returns Retries for a queue.
func retriesOf(q *queue, p *retry.Policy) *retrypubsub.Retries {
	return &retrypubsub.Retries{
		Policy: p, Subscription: q.name, Publisher: publisher(q.client, q.name), Dead: publisher(q.client, q.name+"-dead"),
	}
}

// receive handles the messages of a queue, and returns the errors of Handle.
func receive(t *testing.T, q *queue, r *retrypubsub.Retries, fn func(ctx context.Context, msg *pubsub.Message) error) <-chan error {
	t.Helper()
	errs := make(chan error, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var receiving sync.WaitGroup
	receiving.Go(func() {
		_ = q.client.Subscriber(q.name).Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
			err := errors.New("Goexit")
			defer func() { errs <- err }()
			err = r.Handle(ctx, msg, func(ctx context.Context) error { return fn(ctx, msg) })
		})
	})
	t.Cleanup(func() {
		cancel()
		receiving.Wait()
	})
	return errs
}

func plain(*pubsubpb.Subscription) {}

func (q *queue) publish(data string, attributes map[string]string) {
	q.t.Helper()
	testkit.Must(q.topic.Publish(q.t.Context(), &pubsub.Message{Data: []byte(data), Attributes: attributes}).Get(q.t.Context()))(q.t)
}

// firstError returns the first error of Handle.
func firstError(t *testing.T, errs <-chan error) error {
	t.Helper()
	for {
		if err := testkit.Soon(t, errs); err != nil {
			return err
		}
	}
}

// What is wrong is said by every Handle, and the message comes again.
func TestRefuses(t *testing.T) { //nolint:tparallel // the cases share a topic
	t.Parallel()
	q := open(t, plain)
	for want, change := range map[string]func(r *retrypubsub.Retries){ //nolint:paralleltest // they share it
		": the Publisher or Dead is nil":          func(r *retrypubsub.Retries) { r.Publisher = nil },
		"retrypubsub: m":                          func(r *retrypubsub.Retries) { r.Subscription = "" },
		": the Hold is -1s: must not be negative": func(r *retrypubsub.Retries) { r.Hold = -time.Second },
		"-5s": func(r *retrypubsub.Retries) { r.Policy = &retry.Policy{MaxDelay: -5 * time.Second} },
	} {
		t.Run(want, func(t *testing.T) {
			r := retriesOf(q, nil)
			change(r)
			q.publish("x", nil)
			errs := receive(t, q, r, func(context.Context, *pubsub.Message) error {
				assert.Fail(t, "the message is run")
				return nil
			})
			require.ErrorContains(t, firstError(t, errs), want)
			require.ErrorContains(t, firstError(t, errs), want)
		})
	}
}

// A message that nobody of us has seen before begins with the first attempt, one of an older
// version goes on, one that was changed by somebody ends, and one of another subscription is
// left to that.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	q, events := open(t, plain), &retrytest.Recorder{}
	errs := receive(t, q, retriesOf(q, &retry.Policy{
		MaxAttempts: 5, Observer: events.Observer(), Backoff: retry.Constant(0), MaxRetryAfter: time.Second,
	}), func(context.Context, *pubsub.Message) error {
		return retry.MarkFinal(errors.New("x"))
	})
	for _, test := range []struct {
		attributes map[string]string
		want, told string
	}{
		{nil, "x", "1: gave up (final): "},
		{map[string]string{"retry-state": "f=4"}, "x", "5: gave up (final): "},
		{map[string]string{"retry-state": "f=many"}, `retry-state: retry: state: f=many: strconv.Atoi: parsing "many": invalid syntax`, "0: gave up (final): "},
		{map[string]string{"retry-state": "f=-1"}, "retry-state: retry: state: failures: -1: must not be negative", "0: gave up (final): "},
		{map[string]string{"retry-due": "soon"}, `retry-due: strconv.ParseInt: parsing "soon": invalid syntax`, "0: gave up (final): "},
		{map[string]string{"retry-lost": "-7"}, "x", "1: gave up (final): "},
		{map[string]string{"retry-lost": "9"}, "x", "2: gave up (final): "},
		{map[string]string{"retry-due": "253370764800000"}, "x", "1: gave up (final): "},
	} {
		before := len(events.Events())
		q.publish("a", test.attributes)
		require.NoError(t, <-errs)
		assert.Equal(t, test.want, enginekit.Await(t, q, "a").Err)
		assert.Equal(t, []string{test.told + test.want}, events.Timeline()[before:])
		q.End("a", enginetest.Outcome{}, nil)
	}
	before := len(events.Events())
	q.publish("a", map[string]string{"retry-subscription": "other"})
	require.NoError(t, <-errs)
	assert.Len(t, events.Events(), before)
}

// A message without a policy comes again after a second.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t, plain)
	q.counts = true
	var said enginekit.Said
	q.failed = said.Hear
	enginekit.NoPolicy(t, q, true, said.Next)
}

// A message with an ordering key keeps its place while it waits.
func TestOrderingKey(t *testing.T) {
	t.Parallel()
	q := open(t, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true })
	p := q.client.Publisher(q.name)
	p.EnableMessageOrdering = true
	for _, data := range []string{"a", "b", "c"} {
		testkit.Must(p.Publish(t.Context(), &pubsub.Message{Data: []byte(data), OrderingKey: "key"}).Get(t.Context()))(t)
	}
	var mu sync.Mutex
	var seen []string
	var last time.Time
	const delay = 10 * time.Millisecond
	errs := receive(t, q, retriesOf(q, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(delay), Jitter: retry.NoJitter}),
		func(_ context.Context, msg *pubsub.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if len(seen) > 0 && seen[len(seen)-1] == string(msg.Data) {
				assert.GreaterOrEqual(t, time.Since(last), delay, "early")
			}
			last = time.Now()
			if seen = append(seen, string(msg.Data)); string(msg.Data) == "b" {
				return assert.AnError
			}
			if len(seen) < 2 {
				return assert.AnError
			}
			return nil
		})
	for range 3 {
		require.NoError(t, <-errs)
	}
	assert.Equal(t, []string{"a", "a", "b", "b", "b", "c"}, seen)
	enginekit.Await(t, q, "b")
}

// The service has a limit of 10 MB and one of 100 attributes. A message near them has its State
// in a copy. One at them has no room for that, and its attempts are made in place.
func TestLimitOfSize(t *testing.T) {
	t.Parallel()
	s, events := startServer(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: limits{}}), &retrytest.Recorder{}
	q := openOn(t, s, front(t, s, &s.GServer), plain)
	publish := func(data string) { s.Publish(project+"topics/"+q.name, []byte(data), nil) }
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Observer: events.Observer()}
	errs := receive(t, q, retriesOf(q, p), func(context.Context, *pubsub.Message) error {
		return errors.New(strings.Repeat("ä", 100_000))
	})
	near := strings.Repeat("x", 1e7-2000)
	publish(near)
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	assert.Contains(t, enginekit.Await(t, q, near).Err, "failed after 2 attempts: ää")
	at := strings.Repeat("x", 1e7-200)
	publish(at)
	require.NoError(t, <-errs)
	assert.Equal(t, "no reason", enginekit.Await(t, q, at).Err)
	attributes := map[string]string{}
	for i := range 100 {
		attributes[fmt.Sprint(i)] = "x"
	}
	q.publish("many", attributes)
	require.NoError(t, <-errs)
	assert.Equal(t, "no reason", enginekit.Await(t, q, "many").Err)
	assert.Len(t, events.Timeline(), 6)
}

// limits has the server refuse what the service refuses.
type limits struct{}

func (limits) React(request any) (handled bool, answer any, err error) {
	p, ok := request.(*pubsubpb.PublishRequest)
	if !ok {
		return false, nil, nil
	}
	for _, m := range p.Messages {
		size := len(m.Data)
		for key, value := range m.Attributes {
			size += len(key) + len(value)
		}
		if size > 1e7 || len(m.Attributes) > 100 {
			return true, nil, status.Errorf(codes.InvalidArgument, "%d bytes, %d attributes", size, len(m.Attributes))
		}
	}
	return false, nil, nil
}

// A copy that has no topic to go to, or whose credentials are refused, leaves the message there.
func TestPublisherRefuses(t *testing.T) { //nolint:tparallel // the cases share a server
	t.Parallel()
	refusing := startServer(t, pstest.WithErrorInjection("Publish", codes.PermissionDenied, "no"))
	refused := connect(t, refusing.Addr, &enginetest.Cable{})
	t.Cleanup(func() { _ = refused.Close() })
	for want, client := range map[string]*pubsub.Client{"NotFound": nil, "PermissionDenied": refused} { //nolint:paralleltest // they share it
		t.Run(want, func(t *testing.T) {
			q := open(t, plain)
			r := retriesOf(q, nil)
			r.Dead = publisher(cmp.Or(client, q.client), "none")
			errs := receive(t, q, r, func(context.Context, *pubsub.Message) error { return retry.MarkFinal(assert.AnError) })
			q.publish("a", nil)
			for range 2 {
				require.ErrorContains(t, firstError(t, errs), "the copy for none: rpc error: code = "+want)
			}
		})
	}
}

// refuseOnce is a server that refuses the first message for a topic.
type refuseOnce struct {
	suffix string
	done   atomic.Bool
}

func (r *refuseOnce) React(request any) (handled bool, answer any, err error) {
	p, ok := request.(*pubsubpb.PublishRequest)
	if !ok || !strings.HasSuffix(p.Topic, r.suffix) || r.done.Swap(true) {
		return false, nil, nil
	}
	return true, nil, status.Error(codes.PermissionDenied, "no")
}

// A dead letter has what its message had, and the reason: moved back, it begins anew. A
// publisher that keeps an order does not refuse all that follows what it could not send once.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	s := startServer(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: &refuseOnce{suffix: "-dead"}})
	q := openOn(t, s, s.Addr, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true })
	r := retriesOf(q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)})
	r.Dead.EnableMessageOrdering = true
	in := q.client.Publisher(q.name)
	in.EnableMessageOrdering = true
	testkit.Must(in.Publish(t.Context(), &pubsub.Message{Data: []byte("in order"), OrderingKey: "key"}).Get(t.Context()))(t)
	errs := receive(t, q, r, func(context.Context, *pubsub.Message) error { return assert.AnError })
	require.ErrorContains(t, firstError(t, errs), "PermissionDenied")
	enginekit.Await(t, q, "in order")

	q.publish("copied", map[string]string{"type": "kind"})
	enginekit.Await(t, q, "copied")
	copies := 0
	for _, m := range s.Messages() {
		if m.Attributes["retry-state"] != "" {
			copies++
		}
		if m.Attributes["retry-error"] != "" && string(m.Data) == "copied" {
			assert.Equal(t, map[string]string{"type": "kind", "retry-error": "failed after 2 attempts: " + assert.AnError.Error()}, m.Attributes)
		}
	}
	assert.Equal(t, 1, copies)
}

// Receive returns in the time that the package comment says after its context has ended, also
// if the server is silent, with the client's own settings. One message is in work, and fails.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"success": nil, "failure": assert.AnError, "dead letter": retry.MarkFinal(assert.AnError)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, cable := open(t, plain), enginetest.NewLink()
			client := connect(t, q.address, cable)
			r := &retrypubsub.Retries{Subscription: q.name, Publisher: client.Publisher(q.name), Dead: client.Publisher(q.name + "-dead")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun, over := make(chan struct{}), make(chan error)
			go func() {
				over <- client.Subscriber(q.name).Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
					_ = r.Handle(ctx, msg, func(context.Context) error {
						close(begun)
						<-ctx.Done()
						return err
					})
				})
			}()
			q.publish("a", nil)
			<-begun
			defer cable.Silence()()
			at := time.Now()
			cancel()
			select {
			case err := <-over:
				t.Logf("returned %v after %v", err, time.Since(at))
			case <-time.After(3 * time.Minute): // two, and what a busy machine needs
				assert.Fail(t, "Receive has not returned")
			}
		})
	}
}

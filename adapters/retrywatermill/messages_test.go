//nolint:thelper // what inBubble calls is the test itself
package retrywatermill_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// bench is a router on a broker in memory, in a bubble of synctest.
type bench struct {
	t       *testing.T
	channel *gochannel.GoChannel
	router  *message.Router
	log     *watermill.CaptureLoggerAdapter
	events  *retrytest.Recorder
	retries *retrywatermill.Retries

	mu        sync.Mutex
	published map[string][]*message.Message // by topic
	refused   error                         // what Publish returns
	limit     int                           // of bytes of metadata, for the broker; 0: none
	held      time.Duration                 // the longest that a message was held
}

// inBubble runs a test with a router, and a policy of three attempts.
func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, channel: gochannel.NewGoChannel(gochannel.Config{}, nil), log: watermill.NewCaptureLogger(),
			events: &retrytest.Recorder{}, published: map[string][]*message.Message{},
		}
		b.retries = &retrywatermill.Retries{Publisher: b, Logger: b.log, Policy: &retry.Policy{
			MaxAttempts: 3, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter, Observer: b.events.Observer(),
		}}
		var err error
		b.router, err = message.NewRouter(message.RouterConfig{}, b.log)
		require.NoError(t, err)
		b.router.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				begun := time.Now()
				produced, err := b.retries.Middleware(next)(msg)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.held = max(b.held, time.Since(begun))
				return produced, err
			}
		})
		test(t, b)
		assert.NoError(t, b.router.Close())
		assert.NoError(t, b.channel.Close())
	})
}

// Publish implements [message.Publisher], and notes what was published.
func (b *bench) Publish(topic string, messages ...*message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused != nil {
		return b.refused
	}
	for _, msg := range messages {
		size := 0
		for key, value := range msg.Metadata {
			size += len(key) + len(value)
		}
		if b.limit > 0 && size > b.limit {
			return errors.New("the message is too large")
		}
	}
	b.published[topic] = append(b.published[topic], messages...)
	return b.channel.Publish(topic, messages...)
}

// Close implements [message.Publisher].
func (*bench) Close() error { return nil }

// run starts the router with a handler.
func (b *bench) run(handler func(msg *message.Message) error) {
	b.t.Helper()
	b.router.AddConsumerHandler("import", "jobs", b.channel, handler)
	b.start()
}

func (b *bench) start() {
	go func() { assert.NoError(b.t, b.router.Run(context.Background())) }()
	<-b.router.Running()
}

// submit publishes a message with metadata, and returns when all has come to rest for an hour.
func (b *bench) submit(metadata message.Metadata) {
	b.t.Helper()
	msg := message.NewMessage("some-id", []byte("work"))
	for key, value := range metadata {
		msg.Metadata.Set(key, value)
	}
	require.NoError(b.t, b.channel.Publish("jobs", msg))
	time.Sleep(time.Hour)
}

// logged says whether an error was logged whose text has a part.
func (b *bench) logged(part string) bool { return hasLogged(b.log, part) }

func failing(*message.Message) error { return assert.AnError }

// What is wrong is said for every message, which comes again after a second.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(r *retrywatermill.Retries){
		"the Publisher is nil":                          func(r *retrywatermill.Retries) { r.Publisher = nil },
		"the Hold is -1s: must not be negative":         func(r *retrywatermill.Retries) { r.Hold = -time.Second },
		"the DelayedTopic is later, and Delayed is nil": func(r *retrywatermill.Retries) { r.DelayedTopic = "later" },
		"-5s": func(r *retrywatermill.Retries) { r.Policy.MaxDelay = -5 * time.Second },
	} {
		inBubble(t, func(t *testing.T, b *bench) {
			change(b.retries)
			b.run(func(*message.Message) error {
				assert.Fail(t, "the message is run")
				return nil
			})
			b.submit(nil)
			assert.True(t, b.logged("retrywatermill: jobs: "+want) || b.logged(want), want)
			assert.InDelta(t, 3600, len(b.log.Captured()[watermill.ErrorLogLevel]), 2)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := &retrywatermill.Retries{Publisher: &bench{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := r.Middleware(nil)(message.NewMessageWithContext(ctx, "x", nil))
		assert.EqualError(t, err, "retrywatermill: : the message is not one of a router")
	})
}

// A message that nobody of us has seen before begins with the first attempt, one of an older
// version goes on, and one that was changed by somebody ends.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		metadata message.Metadata
		events   []string // nil: it has ended with the reason
		reason   string
	}{
		{nil, []string{"1: gave up (attempts): x"}, "failed after 1 attempt: x"},
		{message.Metadata{"retry-state": "f=4"}, []string{"5: gave up (attempts): x"}, "failed after 5 attempts: x"},
		{message.Metadata{"retry-state": "f=many"}, nil, `retry-state: retry: state: f=many: strconv.Atoi: parsing "many": invalid syntax`},
		{message.Metadata{"retry-state": "f=-1"}, nil, "retry-state: retry: state: failures: -1: must not be negative"},
		{message.Metadata{"retry-due": "soon"}, nil, `retry-due: strconv.ParseInt: parsing "soon": invalid syntax`},
		{message.Metadata{"retry-lost": "99999999999999999999"}, nil, `retry-lost: strconv.ParseInt: parsing "99999999999999999999": value out of range`},
		{message.Metadata{"retry-lost": "-7"}, []string{"1: gave up (attempts): x"}, "failed after 1 attempt: x"},
		{message.Metadata{"retry-state": "f=4", "retry-lost": "-7"}, []string{"5: gave up (attempts): x"}, "failed after 5 attempts: x"},
		{message.Metadata{"retry-state": "f=3", "retry-lost": "999999"}, []string{"5: gave up (attempts): x"}, "failed after 5 attempts: x"},
		{message.Metadata{"retry-due": "253370764800000"}, []string{"1: gave up (attempts): x"}, "failed after 1 attempt: x"},
		{message.Metadata{"retry-due": "9223372036854775807"}, []string{"1: gave up (attempts): x"}, "failed after 1 attempt: x"},
	} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.retries.Policy.MaxAttempts = 1
			if state := test.metadata.Get("retry-state"); state == "f=3" || state == "f=4" {
				b.retries.Policy.MaxAttempts = 5
			}
			b.run(func(*message.Message) error { return errors.New("x") })
			b.submit(test.metadata)
			time.Sleep(48 * time.Hour) // no due time keeps a message for longer
			if test.events == nil {
				test.events = []string{"0: gave up (final): " + test.reason}
			}
			assert.ElementsMatch(t, test.events, b.events.Timeline())
			dead := b.published["jobs_poison"]
			require.Len(t, dead, 1)
			assert.Equal(t, test.reason, dead[0].Metadata.Get(middleware.ReasonForPoisonedKey))
			assert.Equal(t, "work", string(dead[0].Payload))
		})
	}
}

// A message that is given up has the metadata of Watermill's poison queue. What is moved back
// begins anew.
func TestPoison(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.retries.Poison = "dead"
		b.retries.Policy.MaxAttempts = 2
		var ids []string
		b.run(func(msg *message.Message) error {
			ids = append(ids, msg.UUID)
			return errors.New(strings.Repeat("ä", 100_000))
		})
		b.submit(message.Metadata{"tenant": "x"})
		for i := range 3 {
			require.Len(t, b.published["dead"], i+1)
			dead := b.published["dead"][i]
			reason := dead.Metadata.Get(middleware.ReasonForPoisonedKey)
			assert.InDelta(t, 8<<10, len(reason), 100)
			assert.True(t, utf8.ValidString(reason))
			delete(dead.Metadata, middleware.ReasonForPoisonedKey)
			assert.Equal(t, message.Metadata{
				"tenant": "x", "retry-uuid": "some-id", middleware.PoisonedTopicKey: "jobs",
				middleware.PoisonedHandlerKey: "import", middleware.PoisonedSubscriberKey: "gochannel.GoChannel",
			}, dead.Metadata)
			require.NoError(t, b.channel.Publish("jobs", dead))
			time.Sleep(time.Hour)
		}
		assert.Len(t, ids, 8)
		for _, id := range ids {
			assert.Equal(t, "some-id", id)
		}
		seen := map[string]bool{}
		for _, msg := range append(b.published["jobs"], b.published["dead"]...) {
			assert.False(t, seen[msg.UUID], "a broker may drop the copy as a duplicate")
			seen[msg.UUID] = true
		}
	})
}

// A message without a policy comes again after a second, and has lost no attempt. So does one
// whose function ends its goroutine, because the broker does not count.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		p, calls := b.retries.Policy, 0
		begun := time.Now()
		b.retries.Policy, b.retries.PolicyFor = nil, func(topic string) (*retry.Policy, error) {
			if assert.Equal(t, "jobs", topic); time.Since(begun) < 10*time.Second {
				return nil, errors.New("unknown kind")
			}
			return p, nil
		}
		deliveries := 0
		b.retries.Lost = func(*message.Message) int { // the first one comes after a worker has died
			deliveries++
			return max(2-deliveries, 0)
		}
		b.run(func(*message.Message) error {
			if calls++; calls == 1 {
				runtime.Goexit()
			}
			return assert.AnError
		})
		b.submit(nil)
		assert.True(t, b.logged(`retry: no policy for jobs of kind "jobs": unknown kind`))
		assert.Equal(t, 3, calls)
		b.events.Expect(t, "2: "+assert.AnError.Error()+": retry in 1s",
			"3: gave up (attempts): "+assert.AnError.Error())
	})
}

// No message keeps its subscriber for longer than Hold, and none is early.
func TestHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.retries.Hold = 3 * time.Second
		b.retries.Policy.Backoff = retry.Constant(10 * time.Second)
		b.retries.Policy.MaxAttempts = 2
		begun := time.Now()
		var attempts []time.Duration
		b.run(func(*message.Message) error {
			attempts = append(attempts, time.Since(begun))
			return assert.AnError
		})
		b.submit(nil)
		assert.Equal(t, []time.Duration{0, 10 * time.Second}, attempts)
		assert.Equal(t, 3*time.Second, b.held)
		assert.Len(t, b.published["jobs"], 4) // after 0, 3, 6 and 9 seconds
	})
}

// A copy is for the handler that has failed, and not for the other subscribers of the topic.
func TestOtherSubscribers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		seen := 0
		b.router.AddConsumerHandler("mail", "jobs", b.channel, func(*message.Message) error {
			seen++
			return nil
		})
		b.run(failing)
		b.submit(nil)
		assert.Equal(t, 1, seen)
		assert.Len(t, b.events.Events(), 4)
	})
}

// While nothing can be published, the message comes again after a second each time, and is not
// lost.
func TestPublisherRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		calls := 0
		b.run(func(*message.Message) error {
			calls++
			return retry.MarkFinal(assert.AnError)
		})
		b.refused = errors.New("no such topic")
		go func() {
			time.Sleep(time.Minute)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.refused = nil
		}()
		b.submit(nil)
		assert.True(t, b.logged("cannot publish message to poison queue: no such topic"))
		assert.InDelta(t, 60, calls, 2)
		assert.Len(t, b.published["jobs_poison"], 1)
	})
}

// A message that the broker has no room to add anything to goes on in its place, and ends as it
// came. What its subscriber tells of lost attempts counts once.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.limit = len("tenantx")
		b.retries.Policy.MaxAttempts, b.retries.Policy.Backoff = 4, retry.Constant(300*time.Millisecond)
		b.retries.Lost = func(*message.Message) int { return 1 }
		b.run(failing)
		b.submit(message.Metadata{"tenant": "x"})
		boom := assert.AnError.Error()
		b.events.Expect(t, "2: "+boom+": retry in 300ms", "3: "+boom+": retry in 300ms", "4: gave up (attempts): "+boom)
		assert.Empty(t, b.published["jobs"])
		require.Len(t, b.published["jobs_poison"], 1)
		assert.Equal(t, message.Metadata{"tenant": "x"}, b.published["jobs_poison"][0].Metadata)
		assert.True(t, b.logged("failed after 4 attempts: "+boom))
		assert.Equal(t, 600*time.Millisecond, b.held)
	})
}

// The attempt has a context of its own, with what the router has put into the context of the message.
// What it produces is published.
func TestProduced(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.retries.Policy.AttemptTimeout = time.Second
		b.router.AddHandler("import", "jobs", b.channel, "results", b, func(msg *message.Message) ([]*message.Message, error) {
			assert.Equal(t, "import", message.HandlerNameFromCtx(msg.Context()))
			deadline, ok := msg.Context().Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Second, time.Until(deadline))
			all := []*message.Message{message.NewMessage("result", nil)}
			all[0].Metadata = maps.Clone(msg.Metadata)
			if len(b.events.Events()) == 0 {
				return all, assert.AnError
			}
			return all, nil
		})
		b.start()
		b.submit(nil)
		require.Len(t, b.published["results"], 1)
		for key := range b.published["results"][0].Metadata {
			assert.NotContains(t, key, "retry-", "or it would be a copy for another handler")
		}
		require.Len(t, b.published["jobs"], 1)
		assert.Equal(t, "import", b.published["jobs"][0].Metadata.Get("retry-handler"))
		b.events.Expect(t, "1: "+assert.AnError.Error()+": retry in 1s", "2: succeeded")
	})
}

// A subscriber that has left the message delivers it again, so no copy may be made of it.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		begun := make(chan struct{})
		b.run(func(msg *message.Message) error {
			close(begun)
			<-msg.Context().Done()
			return retry.MarkFinal(assert.AnError)
		})
		require.NoError(t, b.channel.Publish("jobs", message.NewMessage("x", nil)))
		<-begun
		assert.NoError(t, b.router.Close())
		assert.Empty(t, b.published)
		assert.Empty(t, b.events.Events(), "nobody has the outcome")
	})
}

// A Publisher that does not answer is given up on after a minute, or when the subscriber has been
// closed.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"again": assert.AnError, "poison": retry.MarkFinal(assert.AnError)} {
		inBubble(t, func(t *testing.T, b *bench) {
			silent := &silent{begun: make(chan struct{}, 100), over: make(chan struct{})}
			b.retries.Publisher = silent
			b.run(func(*message.Message) error { return err })
			require.NoError(t, b.channel.Publish("jobs", message.NewMessage("x", nil)))
			<-silent.begun
			<-silent.begun // it has come again
			assert.Equal(t, time.Minute+time.Second, b.held, name)
			assert.True(t, b.logged("the Publisher has not answered in 1m0s"))
			begun := time.Now()
			assert.NoError(t, b.router.Close())
			assert.NoError(t, b.channel.Close())
			assert.NoError(t, b.retries.Close(t.Context()))
			assert.Zero(t, time.Since(begun))
			close(silent.over)
		})
	}
}

// silent is a Publisher that does not even look at contexts.
type silent struct{ begun, over chan struct{} }

func (s *silent) Publish(string, ...*message.Message) error {
	s.begun <- struct{}{}
	<-s.over
	return nil
}

func (*silent) Close() error { return nil }

// Close hands back what is in progress, and says when it cannot wait for that.
func TestClose(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		require.NoError(t, (&retrywatermill.Retries{}).Close(t.Context()))
		begun, release := make(chan struct{}, 2), make(chan struct{})
		b.run(func(msg *message.Message) error {
			begun <- struct{}{}
			<-msg.Context().Done()
			<-release
			return assert.AnError
		})
		require.NoError(t, b.channel.Publish("jobs", message.NewMessage("x", nil)))
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.retries.Close(ctx)
		require.EqualError(t, err, "retrywatermill: messages are in progress: context deadline exceeded")
		close(release)
		require.NoError(t, b.retries.Close(t.Context()))
		assert.Empty(t, b.events.Timeline())
		require.Len(t, b.published["jobs"], 1)
		assert.Contains(t, b.published["jobs"][0].Metadata.Get("retry-state"), "t=")
		assert.Empty(t, begun)
	})
}

package retrypubsub_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
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
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, func(*pubsubpb.Subscription) {}, enginetest.Instead{
		Why: "the server answers acknowledgements only if delivery is exactly once", Told: []string{"1: succeeded", "1: succeeded"},
	})
}

func TestConformanceExactlyOnce(t *testing.T) {
	t.Parallel()
	conform(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true },
		enginetest.Instead{Why: noAttempt, Told: []string{"1: succeeded"}})
}

// unit is longer than the 100 ms that the library gathers acknowledgements for.
const unit = 200 * time.Millisecond

const noAttempt = "a delivery is no attempt" // and so not counted

func conform(t *testing.T, change func(*pubsubpb.Subscription), unstored enginetest.Instead) {
	t.Helper()
	const why = noAttempt
	again := "gave up (final): an attempt too many"
	boom := "1: boom: retry in " + unit.String()
	// The fake server delivers a message in 10 ms, and stands still if a client pings, which it
	// does every 30 seconds, while so many wait that it cannot send.
	const jobs = 500
	enginetest.Run(t, &enginetest.Engine{
		Unit: unit, Grain: 5 * time.Second, Recovery: 15 * time.Second, Jobs: jobs, Cannot: map[string]enginetest.Instead{
			"crash":                 {Why: why, Told: []string{boom, "2: succeeded"}},
			"crash: poison":         {Why: why, Told: []string{"1: " + again}},
			"crash: not idempotent": {Why: why, Told: []string{"1: " + again}},
			"success not stored":    unstored,
			"crash after a failure": {Why: why, Told: []string{boom, "2: " + again}},
			"refused dead letter":   {Why: "the message comes again, also from another worker"},
		},
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, change)
		},
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error { // the fake server takes less than the service
			return q.(*queue).submit(ctx, kind, job, []byte(strings.Repeat(" ", 3_900_000)), nil) //nolint:forcetypeassert // see Open
		},
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			return q.(*queue).submit(ctx, kind, job, nil, headers) //nolint:forcetypeassert // see Open
		},
		DeadHeaders: enginekit.DeadHeaders,
		OpenTwo: func(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
			t.Helper()
			return openTwo(t, change)
		},
		Repeat: func(_ context.Context, q enginetest.Queue, _ string) error {
			q.(*queue).server.forget() //nolint:forcetypeassert // see Open
			return nil
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t, plain)
			q.cable = cable
			return q
		},
		Forgets: true,
		Twice:   true,
	}
	outage.Run(t)
}

// server is the fake server of the library, with a clock of its own.
type server struct {
	*pstest.Server

	mu    sync.Mutex
	start time.Time
	ahead time.Duration
}

// faster is how fast the server's clock goes. The library asks for ack deadlines of ten
// seconds and more, after which the messages of a dead worker come again.
const faster = 5

func startServer(t testing.TB, opts ...pstest.ServerReactorOption) *server {
	t.Helper()
	s := &server{Server: pstest.NewServer(opts...), start: time.Now()}
	s.SetTimeNowFunc(func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.start.Add(s.ahead + faster*time.Since(s.start))
	})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// forget has all ack deadlines run out, so that messages are delivered again.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += time.Minute
}

const project = "projects/enginetest/"

// queue is a topic with a subscription, and a topic for dead messages.
type queue struct {
	enginekit.Ends

	t       testing.TB
	address string
	name    string
	server  *server
	client  *pubsub.Client
	topic   *pubsub.Publisher
	cable   *enginetest.Cable // of all workers, which connect again when it is lost
	single  bool              // workers take one message at a time
	shared  *pubsub.Client    // of all workers
	counts  bool              // workers count deliveries

	failed func(error) // is told of errors of Handle, unless it is nil

	mu   sync.Mutex
	last map[string]string // the ID of the last message of a job
}

func connect(t testing.TB, address string, cable *enginetest.Cable) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(context.Background(), "enginetest", option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return cable.DialContext(ctx, "tcp", address)
		})), option.WithGRPCConnectionPool(1))
	require.NoError(t, err)
	return client
}

func attach(t testing.TB, address, name string) *queue {
	t.Helper()
	q := &queue{t: t, address: address, name: name, client: connect(t, address, &enginetest.Cable{}), last: map[string]string{}}
	q.topic = publisher(q.client, name)
	t.Cleanup(func() { _ = q.client.Close() })
	return q
}

// publisher returns one that does not wait for more messages.
func publisher(client *pubsub.Client, topic string) *pubsub.Publisher {
	p := client.Publisher(topic)
	p.PublishSettings.DelayThreshold = time.Millisecond
	return p
}

func open(t testing.TB, change func(*pubsubpb.Subscription)) *queue {
	t.Helper()
	s := startServer(t)
	return openOn(t, s, s.Addr, change)
}

func openOn(t testing.TB, s *server, address string, change func(*pubsubpb.Subscription)) *queue {
	t.Helper()
	q := attach(t, address, "enginetest-"+strings.ToLower(rand.Text()[:10]))
	q.server = s
	ctx, cancel := context.WithCancel(context.Background())
	for _, topic := range []string{q.name, q.name + "-dead"} {
		testkit.Must(q.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: project + "topics/" + topic}))(t)
	}
	sub := &pubsubpb.Subscription{
		Name: project + "subscriptions/" + q.name, Topic: project + "topics/" + q.name,
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic: project + "topics/" + q.name + "-dead", MaxDeliveryAttempts: 100,
		},
	}
	change(sub)
	testkit.Must(q.client.SubscriptionAdminClient.CreateSubscription(ctx, sub))(t)
	testkit.Must(q.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: project + "subscriptions/" + q.name + "-dead", Topic: project + "topics/" + q.name + "-dead",
	}))(t)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		_ = q.client.Subscriber(q.name+"-dead").Receive(ctx, func(_ context.Context, msg *pubsub.Message) {
			q.GiveUp(jobOf(msg), cmp.Or(msg.Attributes["retry-error"], "no reason"), msg.Attributes)
			msg.Ack()
		})
	})
	t.Cleanup(func() {
		cancel()
		receiving.Wait()
	})
	return q
}

// forbidden is a topic to which nobody may publish.
type forbidden struct{ topic atomic.Value }

// React implements [pstest.Reactor].
func (f *forbidden) React(request any) (handled bool, ret any, err error) {
	if publish, ok := request.(*pubsubpb.PublishRequest); !ok || publish.GetTopic() != f.topic.Load() {
		return false, nil, nil
	}
	return true, &pubsubpb.PublishResponse{}, status.Error(codes.PermissionDenied, "forbidden")
}

// openTwo opens two topics whose workers have one client. Nobody may publish to the first one
// for a while.
func openTwo(t testing.TB, change func(*pubsubpb.Subscription)) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	var f forbidden
	f.topic.Store("")
	s := startServer(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: &f})
	bad, good := openOn(t, s, s.Addr, change), openOn(t, s, s.Addr, change)
	bad.shared = bad.client
	good.shared = bad.client
	return enginetest.Both(bad, good), func() (func() error, error) {
		f.topic.Store(project + "topics/" + bad.name)
		return func() error { f.topic.Store(""); return nil }, nil
	}
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	return q.submit(ctx, kind, job, nil, nil)
}

func (q *queue) submit(ctx context.Context, kind, job string, padding []byte, headers map[string]string) error {
	attributes := map[string]string{"type": kind}
	maps.Copy(attributes, headers)
	_, err := q.topic.Publish(ctx, &pubsub.Message{Data: append([]byte(job), padding...), Attributes: attributes}).Get(ctx)
	return err
}

// jobOf returns the job of a message, without its padding.
func jobOf(msg *pubsub.Message) string { return strings.TrimRight(string(msg.Data), " ") }

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{cable: cmp.Or(q.cable, &enginetest.Cable{})}
	client := q.shared
	if client == nil {
		client = connect(q.t, q.address, w.cable)
		w.client = client
	}
	w.retries = &retrypubsub.Retries{
		Policy: p.Policy, PolicyFor: p.PolicyFor, Subscription: q.name, Hold: 200 * time.Millisecond, Overtime: time.Second, CountDeliveries: q.single || q.counts,
		Publisher: publisher(client, q.name), Dead: publisher(client, q.name+"-dead"),
	}
	subscriber := client.Subscriber(q.name)
	if q.single {
		subscriber.ReceiveSettings.MaxOutstandingMessages = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.wg.Go(func() {
		err := subscriber.Receive(ctx, func(ctx context.Context, msg *pubsub.Message) { q.handle(ctx, w, msg, handle) })
		if err != nil && !w.killed.Load() {
			assert.NoError(q.t, err)
		}
	})
	return w, nil
}

// handle handles a message. The server keeps no record of a success, and one of a worker that is
// dead does not reach it.
func (q *queue) handle(ctx context.Context, w *workers, msg *pubsub.Message, handle enginetest.Handler) {
	succeeded := false
	err := w.retries.Handle(ctx, msg, func(ctx context.Context) error {
		q.acknowledged(ctx, msg)
		err := handle(ctx, jobOf(msg))
		succeeded = err == nil
		return err
	})
	if err != nil && q.failed != nil {
		q.failed(err)
	}
	if succeeded && err == nil && !w.killed.Load() {
		q.Succeed(jobOf(msg))
	}
}

// acknowledged waits until the server knows that the message before a copy is over: a worker
// that dies earlier leaves both. It does not wait for long, in case one has died.
func (q *queue) acknowledged(ctx context.Context, msg *pubsub.Message) {
	q.mu.Lock()
	before := q.last[jobOf(msg)]
	q.last[jobOf(msg)] = msg.ID
	q.mu.Unlock()
	if q.server == nil || before == "" || before == msg.ID {
		return
	}
	for end := time.Now().Add(2 * time.Second); ctx.Err() == nil && time.Now().Before(end) && q.server.Message(before).Acks == 0; {
		time.Sleep(time.Millisecond)
	}
}

type workers struct {
	cable   *enginetest.Cable
	client  *pubsub.Client
	retries *retrypubsub.Retries
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	killed  atomic.Bool
}

func (w *workers) Stop(context.Context) error {
	w.cancel()
	if w.killed.Load() {
		return nil
	}
	w.wg.Wait()
	if w.client == nil {
		return nil
	}
	client := w.client
	w.client = nil
	if err := client.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func (w *workers) Kill() error {
	w.killed.Store(true)
	w.cable.Cut()
	return nil
}

// TestCrash kills worker processes at random moments. The server is in the process of the
// test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			s := startServer(t)
			q := openOn(t, s, startOneByOne(t, s), plain)
			return q, q.address + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			address, name, _ := strings.Cut(address, " ")
			q := attach(t, address, name)
			q.single = true
			return q
		},
		Forgets: true,
	}
	crash.Run(t)
}

// oneByOne sends a stream one message, and the next when that is answered, as the service
// does for a MaxOutstandingMessages of 1. The fake server has no such limit.
type oneByOne struct {
	pubsubpb.SubscriberServer

	mu       sync.Mutex
	answered map[string]chan struct{} // by acknowledgement ID
}

func startOneByOne(t testing.TB, s *server) string {
	t.Helper()
	return front(t, s, &oneByOne{SubscriberServer: &s.GServer, answered: map[string]chan struct{}{}})
}

// front serves a server at another address, for messages of any size.
func front(t testing.TB, s *server, subscriber pubsubpb.SubscriberServer) string {
	t.Helper()
	listener := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	served := grpc.NewServer(grpc.MaxRecvMsgSize(20 << 20))
	pubsubpb.RegisterPublisherServer(served, &s.GServer)
	pubsubpb.RegisterSubscriberServer(served, subscriber)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(served.Stop)
	return listener.Addr().String()
}

func (o *oneByOne) answer(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if c := o.answered[id]; c != nil {
			close(c)
			delete(o.answered, id)
		}
	}
}

// Acknowledge implements [pubsubpb.SubscriberServer].
func (o *oneByOne) Acknowledge(ctx context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	defer o.answer(r.GetAckIds()...)
	return o.SubscriberServer.Acknowledge(ctx, r)
}

// ModifyAckDeadline implements [pubsubpb.SubscriberServer].
func (o *oneByOne) ModifyAckDeadline(ctx context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if r.GetAckDeadlineSeconds() == 0 {
		defer o.answer(r.GetAckIds()...)
	}
	return o.SubscriberServer.ModifyAckDeadline(ctx, r)
}

// StreamingPull implements [pubsubpb.SubscriberServer].
func (o *oneByOne) StreamingPull(stream pubsubpb.Subscriber_StreamingPullServer) error {
	return o.SubscriberServer.StreamingPull(pausing{stream, o})
}

type pausing struct {
	pubsubpb.Subscriber_StreamingPullServer

	to *oneByOne
}

// Send implements [pubsubpb.Subscriber_StreamingPullServer].
func (p pausing) Send(r *pubsubpb.StreamingPullResponse) error {
	answered := make(chan struct{})
	for _, msg := range r.GetReceivedMessages() { // one, or none
		p.to.mu.Lock()
		p.to.answered[msg.GetAckId()] = answered
		p.to.mu.Unlock()
	}
	if err := p.Subscriber_StreamingPullServer.Send(r); err != nil || len(r.GetReceivedMessages()) == 0 {
		return err
	}
	select {
	case <-answered:
	case <-p.Context().Done():
	}
	return nil
}

package retryjetstream_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// startServer starts a server in this process.
func startServer(t testing.TB) string {
	t.Helper()
	url, stop := exampleServer()
	t.Cleanup(stop)
	return url
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, startServer(t))
}

// TestLoopback is for a server in a process of its own.
func TestLoopback(t *testing.T) {
	t.Parallel()
	conform(t, loopback(t))
}

// loopback returns the address of a server in a process of its own.
func loopback(t *testing.T) string {
	t.Helper()
	testkit.Needs(t, "NATS")
	url := cmp.Or(os.Getenv("RETRY_TEST_NATS"), "nats://127.0.0.1:4222")
	conn, err := nats.Connect(url)
	require.NoError(t, err, "NATS does not answer")
	conn.Close()
	return url
}

func conform(t *testing.T, url string) {
	t.Helper()
	enginetest.Run(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second, InPlace: true,
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, url)
		},
		Repeat: func(_ context.Context, q enginetest.Queue, job string) error {
			return q.(*queue).repeat(job) //nolint:forcetypeassert // see Open
		},
		OpenTwo: func(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
			t.Helper()
			return openTwo(t, url)
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

// TestCrash kills worker processes at random moments. The server is in the process of
// the test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t, startServer(t))
			return q, q.url + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			url, name, _ := strings.Cut(address, " ")
			return &queue{t: t, url: url, name: name, single: true}
		},
	}
	crash.Run(t)
}

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	suffer(t, startServer(t))
}

// TestOutageLoopback is for a server in a process of its own. Version 2.9 delivers a
// message as new again.
func TestOutageLoopback(t *testing.T) {
	t.Parallel()
	suffer(t, loopback(t))
}

func suffer(t *testing.T, url string) {
	t.Helper()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, url)
		q.cable = cable
		return q
	}}
	outage.Run(t)
}

func connect(t testing.TB, url string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn := testkit.Must(nats.Connect(url, options...))(t)
	t.Cleanup(conn.Close)
	return conn, testkit.Must(jetstream.New(conn))(t)
}

// queue is a stream with one consumer, and a bucket.
type queue struct {
	enginekit.Ends // by the sequence of the message, as the server reports them

	t    testing.TB
	url  string
	name string
	js   jetstream.JetStream

	sequences map[string]uint64
	replies   sync.Map          // where the deliveries of jobs are acknowledged
	single    bool              // workers fetch one message at a time
	cable     *enginetest.Cable // of all workers, which connect again when it is lost
	shared    *nats.Conn        // of all workers
	failed    func(error)       // is told of errors of Handle; may be nil
}

func open(t testing.TB, url string) *queue {
	t.Helper()
	conn, js := connect(t, url)
	q := &queue{
		t: t, url: url, name: "enginetest-" + strings.ToLower(rand.Text()[:10]), js: js,
		sequences: map[string]uint64{},
	}
	for subject, status := range map[string]enginetest.Status{
		"$JS.EVENT.METRIC.CONSUMER.ACK.":              enginetest.Succeeded,
		"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.": enginetest.GaveUp,
	} {
		testkit.Must(conn.Subscribe(subject+q.name+".workers", func(msg *nats.Msg) { q.ended(msg.Data, status) }))(t)
	}
	require.NoError(t, conn.Flush())
	testkit.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: q.name, Subjects: []string{q.name + ".*"}, Storage: jetstream.MemoryStorage,
	}))(t)
	testkit.Must(js.CreateConsumer(t.Context(), q.name, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 3 * time.Second, SampleFrequency: "100%",
		MaxAckPending: 20_000,
	}))(t)
	testkit.Must(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: q.name, Storage: jetstream.MemoryStorage}))(t)
	t.Cleanup(func() {
		ctx := context.Background()
		assert.NoError(t, js.DeleteStream(ctx, q.name))
		assert.NoError(t, js.DeleteKeyValue(ctx, q.name))
	})
	return q
}

func (q *queue) ended(event []byte, status enginetest.Status) {
	var e struct {
		Sequence uint64 `json:"stream_seq"`
		Reason   string `json:"reason"`
	}
	if !assert.NoError(q.t, json.Unmarshal(event, &e)) {
		return
	}
	q.End(fmt.Sprint(e.Sequence), enginetest.Outcome{Status: status, Err: e.Reason}, nil)
}

// openTwo opens two streams whose workers have one connection. The bucket of the first refuses
// for a while what is put into it.
func openTwo(t testing.TB, url string) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad, good := open(t, url), open(t, url)
	bad.shared, _ = connect(t, url)
	good.shared = bad.shared
	limit := func(size int32) error {
		stream, err := bad.js.Stream(context.Background(), "KV_"+bad.name)
		if err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		config.MaxMsgSize = size
		_, err = bad.js.UpdateStream(context.Background(), config)
		return err
	}
	return enginetest.Both(bad, good), func() (func() error, error) {
		return func() error { return limit(-1) }, limit(1)
	}
}

// repeat has the server deliver a job again that is being worked on.
func (q *queue) repeat(job string) error {
	reply, running := q.replies.Load(job)
	if !running {
		return fmt.Errorf("%s is not being worked on", job)
	}
	return q.js.Conn().Publish(reply.(string), []byte("-NAK")) //nolint:forcetypeassert // see Start
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	ack, err := q.js.Publish(ctx, q.name+"."+kind, []byte(job))
	if err == nil {
		q.sequences[job] = ack.Sequence
	}
	return err
}

func (q *queue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	return q.Ends.Outcome(ctx, fmt.Sprint(q.sequences[job]))
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{cable: cmp.Or(q.cable, &enginetest.Cable{})}
	options := []nats.Option{nats.SetCustomDialer(w.cable), nats.NoReconnect()}
	if q.cable != nil { // it may be silent
		options = []nats.Option{
			nats.SetCustomDialer(w.cable), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
			nats.PingInterval(500 * time.Millisecond),
		}
	}
	conn := q.shared
	if conn == nil {
		conn, _ = connect(q.t, q.url, options...)
		w.conn = conn
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	consumer, err := js.Consumer(ctx, q.name, "workers")
	if err != nil {
		return nil, err
	}
	states, err := js.KeyValue(ctx, q.name)
	if err != nil {
		return nil, err
	}
	retries := &retryjetstream.Retries{Policy: p.Policy, JetStream: js, Consumer: consumer, States: states}
	if p.PolicyFor != nil {
		retries.PolicyFor = func(subject string) (*retry.Policy, error) {
			return p.PolicyFor(strings.TrimPrefix(subject, q.name+"."))
		}
	}
	run := func(msg jetstream.Msg) {
		q.replies.Store(string(msg.Data()), msg.Reply())
		err := retries.Handle(ctx, msg, func(ctx context.Context) error { return handle(ctx, string(msg.Data())) })
		if err != nil && q.failed != nil {
			q.failed(err)
		}
	}
	if q.single {
		go func() {
			for {
				if msg, err := consumer.Next(); err == nil {
					run(msg)
				}
			}
		}()
		return w, nil
	}
	w.consuming, err = consumer.Consume(func(msg jetstream.Msg) { w.wg.Go(func() { run(msg) }) }, jetstream.PullMaxMessages(100))
	return w, err
}

type workers struct {
	cable     *enginetest.Cable
	conn      *nats.Conn
	consuming jetstream.ConsumeContext
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

func (w *workers) Stop(context.Context) error {
	w.consuming.Drain()
	<-w.consuming.Closed()
	w.cancel()
	w.wg.Wait()
	if w.conn != nil {
		w.conn.Close()
	}
	return nil
}

func (w *workers) Kill() error {
	w.cable.Cut()
	return nil
}

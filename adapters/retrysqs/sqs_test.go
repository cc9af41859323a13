package retrysqs_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, "", nil)
}

// A FIFO queue keeps its order, and so has no place for a State.
func TestConformanceOfFIFOQueues(t *testing.T) {
	t.Parallel()
	const why, over = "every delivery counts", "2: gave up (attempts)"
	const lost = ": retry: worker lost" // as for all that SQS knows
	instead := func(told ...string) enginetest.Instead { return enginetest.Instead{Why: why, Told: told} }
	const limited = ": limited: retry in 3s"
	conform(t, ".fifo", map[string]enginetest.Instead{
		"progress":                       instead("1: boom: retry in 1s", "2: boom: retry in 2s", "1: boom: retry in 1s", "3: gave up (attempts)"+lost),
		"pending":                        instead("1: not there yet: retry in 1s", "2: not there yet: retry in 2s", over+lost),
		"hint: free":                     instead("1"+limited, "2"+limited, over+lost),
		"hint: free on the last attempt": instead("1: boom: retry in 1s", "2"+limited, over+lost),
		"hint: free ones used up":        instead("1"+limited, "2"+limited, over+lost),
		"shutdown":                       instead(over + ": boom"),
		"not started":                    instead("1: gave up (attempts)" + lost),
	})
}

func conform(t *testing.T, suffix string, cannot map[string]enginetest.Instead) {
	t.Helper()
	enginetest.Run(t, &enginetest.Engine{
		Unit: time.Second, Grain: 5 * time.Second, Recovery: 15 * time.Second, Jobs: 1000, Cannot: cannot,
		Early: time.Millisecond, // the emulator's clock counts whole ones
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, suffix)
		},
		Repeat: func(ctx context.Context, q enginetest.Queue, job string) error {
			return q.(*queue).repeat(ctx, job) //nolint:forcetypeassert // see Open
		},
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error {
			attribute := len("kind") + len("String") + len(kind) // is a part of the size
			body := job + "\n" + strings.Repeat("x", mostBytes-len(job)-1-attribute)
			return q.(*queue).send(ctx, body, map[string]string{"kind": kind}) //nolint:forcetypeassert // see Open
		},
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			attributes := maps.Clone(headers)
			attributes["kind"] = kind
			return q.(*queue).send(ctx, job, attributes) //nolint:forcetypeassert // see Open
		},
		DeadHeaders: enginekit.DeadHeaders,
		OpenTwo: func(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
			t.Helper()
			return openTwo(t, suffix)
		},
		RefuseDead: func(_ context.Context, q enginetest.Queue) (mend func() error, err error) {
			refuses := &q.(*queue).refuses //nolint:forcetypeassert // see Open
			refuses.Store(true)
			return func() error { refuses.Store(false); return nil }, nil
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 40) }

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t, "")
			return q, q.url
		},
		Attach: func(t testing.TB, url string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, url: url, single: true, receipts: map[string]string{}, done: map[string]string{}}
		},
		Forgets: true,
	}
	crash.Run(t)
}

var outage = &enginetest.Outage{
	Stops: 100 * time.Second,
	Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t, "")
		q.cable = cable
		return q
	},
}

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	outage.Run(t)
}

// TestSilence has workers stop although the server is silent.
func TestSilence(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	outage.Silence(t)
}

// server is the URL of SQS.
func server(t testing.TB) string {
	t.Helper()
	testkit.Needs(t, "SQS")
	return cmp.Or(os.Getenv("RETRY_TEST_SQS"), "http://127.0.0.1:4566")
}

func connect(t testing.TB, transport http.RoundTripper) *sqs.Client {
	t.Helper()
	return connectTo(server(t), transport)
}

// connectTo makes a client with the default settings. transport may be nil.
func connectTo(url string, transport http.RoundTripper) *sqs.Client {
	var client sqs.HTTPClient
	if transport != nil {
		client = &http.Client{Transport: transport}
	}
	return clientOf(url, client)
}

func clientOf(url string, client sqs.HTTPClient) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: client,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

// queue is a queue of SQS, and one for dead letters.
type queue struct {
	enginekit.Ends

	t         testing.TB
	suffix    string
	url, dead string
	client    *sqs.Client
	single    bool              // workers take one message at a time
	cable     *enginetest.Cable // of all workers
	refuses   atomic.Bool       // dead letters
	down      atomic.Bool       // whatever workers ask of it
	shared    *sqs.Client       // of all workers
	kind      string            // the attribute with the kind; empty means "kind"
	told      func(error)       // of what workers tell; may be nil

	mu       sync.Mutex
	receipts map[string]string // of jobs
	done     map[string]string // the jobs of receipts that have succeeded
}

func open(t testing.TB, suffix string) *queue {
	t.Helper()
	q := openIdle(t, suffix)
	ctx, cancel := context.WithCancel(context.Background())
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for ctx.Err() == nil {
			for _, msg := range receive(ctx, q.client, q.dead, 5) {
				labels := map[string]string{}
				for name, a := range msg.MessageAttributes {
					labels[name] = aws.ToString(a.StringValue)
				}
				q.GiveUp(jobOf(msg), labels["retry-error"], labels)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		collecting.Wait()
	})
	return q
}

// openTwo opens two queues whose workers have one client. For a while, the first refuses all
// requests.
func openTwo(t testing.TB, suffix string) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad, good := open(t, suffix), open(t, suffix)
	bad.shared = clientOf(proxy(t, bad, good), nil)
	good.shared = bad.shared
	return enginetest.Both(bad, good), func() (func() error, error) {
		bad.down.Store(true)
		return func() error { bad.down.Store(false); return nil }, nil
	}
}

// openIdle leaves the dead letters alone.
func openIdle(t testing.TB, suffix string) *queue {
	t.Helper()
	q := &queue{
		t: t, suffix: suffix, client: connect(t, nil), receipts: map[string]string{}, done: map[string]string{},
	}
	name := "enginetest-" + strings.ToLower(rand.Text()[:10])
	q.dead, q.url = q.create(name+"-dead", nil), q.create(name, map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s-dead%s","maxReceiveCount":1000}`, name, suffix),
	})
	return q
}

func (q *queue) create(name string, attributes map[string]string) (url string) {
	q.t.Helper()
	if q.suffix != "" {
		attributes = map[string]string{"FifoQueue": "true", "RedrivePolicy": attributes["RedrivePolicy"]}
		if attributes["RedrivePolicy"] == "" {
			delete(attributes, "RedrivePolicy")
		}
	}
	out, err := q.client.CreateQueue(q.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name + q.suffix), Attributes: attributes})
	require.NoError(q.t, err, "SQS does not answer")
	q.t.Cleanup(func() {
		_, _ = q.client.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}) // a test may have done so
	})
	return *out.QueueUrl
}

// mostBytes is how much a message may have, with its attributes.
const mostBytes = 1 << 20

// jobOf returns the job of a message, which may have more in its body.
func jobOf(msg types.Message) string {
	job, _, _ := strings.Cut(*msg.Body, "\n")
	return job
}

// receive takes messages, and waits for that.
func receive(ctx context.Context, client *sqs.Client, url string, wait int32) []types.Message {
	out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait, VisibilityTimeout: 30,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}, MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return nil
	}
	return out.Messages
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	return q.send(ctx, job, map[string]string{cmp.Or(q.kind, "kind"): kind})
}

func (q *queue) send(ctx context.Context, job string, attributes map[string]string) error {
	in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &job, MessageAttributes: map[string]types.MessageAttributeValue{}}
	for name, value := range attributes {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	if q.suffix != "" {
		in.MessageGroupId, in.MessageDeduplicationId = &job, aws.String(rand.Text())
	}
	_, err := q.client.SendMessage(ctx, in)
	return err
}

// repeat makes SQS take the worker of a job for dead.
func (q *queue) repeat(ctx context.Context, job string) error {
	q.mu.Lock()
	receipt := q.receipts[job]
	q.mu.Unlock()
	_, err := q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &q.url, ReceiptHandle: &receipt})
	return err
}

// deletes is the transport of a proxy between workers and SQS, which keeps no record of a
// message that was deleted. So it notes them, also if the worker never has the answer.
type deletes struct{ queues []*queue }

// proxy starts one for some queues.
func proxy(t testing.TB, queues ...*queue) string {
	t.Helper()
	target := testkit.Must(url.Parse(server(t)))(t)
	p := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &deletes{queues}, ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(p.Close)
	return p.URL
}

// of returns the queue of a request, and whether it takes none. A request for a URL is of no queue.
func (d *deletes) of(req *http.Request) (q *queue, down bool, err error) {
	var in struct{ QueueUrl string } //nolint:revive // as SQS spells it
	err = peek(req, &in)
	i := slices.IndexFunc(d.queues, func(q *queue) bool { return in.QueueUrl == q.url || in.QueueUrl == q.dead })
	q = d.queues[max(i, 0)]
	return q, i >= 0 && q.down.Load(), err
}

// action returns what a request asks for.
func action(req *http.Request) string {
	return strings.TrimPrefix(req.Header.Get("X-Amz-Target"), "AmazonSQS.")
}

// peek reads a request, and leaves it as it was.
func peek(req *http.Request, in any) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return json.Unmarshal(body, in)
}

// hurry has a receiver wait here, and not in the emulator.
func hurry(req *http.Request) error {
	var in map[string]any
	if err := peek(req, &in); err != nil {
		return err
	}
	in["WaitTimeSeconds"] = 0
	body, err := json.Marshal(in)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	time.Sleep(50 * time.Millisecond)
	return err
}

// RoundTrip implements [http.RoundTripper].
func (d *deletes) RoundTrip(req *http.Request) (*http.Response, error) {
	q, down, err := d.of(req)
	if err != nil {
		return nil, err
	}
	if down {
		return refusal("AccessDeniedException"), nil
	}
	var in struct{ ReceiptHandle string }
	if q.single && action(req) == "ReceiveMessage" { // a worker may be killed while it waits, and would be answered
		if err := hurry(req); err != nil {
			return nil, err
		}
	}
	if action(req) == "SendMessage" && q.refuses.Load() {
		return refusal("AccessDeniedException"), nil
	}
	if action(req) == "DeleteMessage" {
		if err := peek(req, &in); err != nil {
			return nil, err
		}
		req = req.WithContext(context.WithoutCancel(req.Context())) // SQS goes on if the worker hangs up
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK && in.ReceiptHandle != "" {
		q.mu.Lock()
		defer q.mu.Unlock()
		if job := q.done[in.ReceiptHandle]; job != "" {
			q.Succeed(job)
		}
	}
	return resp, err
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	cable := cmp.Or(q.cable, &enginetest.Cable{})
	client := q.shared
	if client == nil {
		client = clientOf(proxy(q.t, q), awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.DialContext = cable.DialContext
		}))
	}
	retries := &retrysqs.Retries{
		Policy: p.Policy, PolicyFor: p.PolicyFor, QueueURL: q.url, Concurrency: 20, Visibility: 3 * time.Second, Client: client,
		KindAttribute: q.kind, OnError: func(_ context.Context, err error) {
			if q.told != nil {
				q.told(err)
			}
		},
	}
	if q.single {
		retries.Concurrency = 1
	} else if q.cable == nil {
		retries.Visibility = 6 * time.Second // a busy machine is late to delete a message
	}
	fn := func(ctx context.Context, msg types.Message) error {
		job := jobOf(msg)
		q.mu.Lock()
		q.receipts[job] = *msg.ReceiptHandle
		q.mu.Unlock()
		err := handle(ctx, job)
		if err == nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.done[*msg.ReceiptHandle] = job
		}
		return err
	}
	return enginekit.Work(cable, q.cable != nil || q.shared != nil, func(ctx context.Context) error { return retries.Run(ctx, fn) }), nil
}

// name returns the name of the queue without its suffix.
func (q *queue) name() string {
	return strings.TrimSuffix(q.url[strings.LastIndex(q.url, "/")+1:], q.suffix)
}

package retrysqs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func retriesOf(q *queue, p *retry.Policy) *retrysqs.Retries {
	return &retrysqs.Retries{Policy: p, Client: q.client, QueueURL: q.url, Visibility: 2 * time.Second}
}

// start starts a Run.
func start(t *testing.T, r *retrysqs.Retries, fn func(context.Context, types.Message) error) *enginekit.Run {
	t.Helper()
	return enginekit.Start(t, func(ctx context.Context, onError func(context.Context, error)) error {
		r.OnError = onError
		return r.Run(ctx, fn)
	})
}

// take takes at least n messages, and waits for them.
func (q *queue) take(t *testing.T, url string, n int) (all []types.Message) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(all) < n; {
		require.True(t, time.Now().Before(end), "there are %d messages, not %d", len(all), n)
		all = append(all, receive(t.Context(), q.client, url, 5)...)
	}
	return all
}

// letter waits for a message that was given up.
func (q *queue) letter(t *testing.T) types.Message {
	t.Helper()
	return q.take(t, q.dead, 1)[0]
}

// counts returns how many messages of the queue are there, hidden and delayed.
func (q *queue) counts(t *testing.T) string {
	t.Helper()
	out, err := q.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{"All"}})
	require.NoError(t, err)
	const name = "ApproximateNumberOfMessages"
	return strings.Join([]string{out.Attributes[name], out.Attributes[name+"NotVisible"], out.Attributes[name+"Delayed"]}, " ")
}

func fail(context.Context, types.Message) error { return assert.AnError }

func reason(m types.Message) string {
	return aws.ToString(m.MessageAttributes["retry-error"].StringValue)
}

// refuses answers as SQS does to credentials that it refuses, from the time on that it is told to.
type refuses struct{ on atomic.Bool }

// RoundTrip implements [http.RoundTripper].
func (r *refuses) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.on.Load() {
		return http.DefaultTransport.RoundTrip(req)
	}
	return refusal("InvalidClientTokenId"), nil
}

// refusal is how SQS refuses a request.
func refusal(code string) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#`+code+`","message":"The request is refused."}`)
	return w.Result()
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	refused := &refuses{}
	refused.on.Store(true)
	for want, change := range map[string]func(*retrysqs.Retries){
		"the Client is nil, or QueueURL is empty": func(r *retrysqs.Retries) { r.Client = nil },
		"-1s": func(r *retrysqs.Retries) { r.Policy = &retry.Policy{MaxDelay: -time.Second} },
		"Retries.Visibility is 1s: must be from 2s to 11h0m0s": func(r *retrysqs.Retries) { r.Visibility = time.Second },
		"NonExistentQueue":     func(r *retrysqs.Retries) { r.QueueURL += "-none" },
		"InvalidClientTokenId": func(r *retrysqs.Retries) { r.Client = connect(t, refused) },
		"RedrivePolicy: maxReceiveCount is 2: must be at least MaxAttempts of the policy, or 1000": func(r *retrysqs.Retries) {
			r.QueueURL = q.create("enginetest-short-"+q.name(), map[string]string{
				"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + q.name() + `-dead","maxReceiveCount":"2"}`,
			})
		},
		"no queue for messages that are given up: set Dead, or a RedrivePolicy of the queue": func(r *retrysqs.Retries) {
			r.QueueURL = q.create("enginetest-plain-"+q.name(), nil)
		},
	} {
		r := retriesOf(q, nil)
		change(r)
		for range 2 {
			err := r.Run(t.Context(), fail)
			require.ErrorContains(t, err, "retrysqs: "+r.QueueURL+": ")
			assert.ErrorContains(t, err, want)
		}
	}
}

// SQS that refuses the credentials of a Run ends it. The message is not lost.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	q, refused := openIdle(t, ""), &refuses{}
	r := retriesOf(q, nil)
	r.Client = connect(t, refused)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	s := start(t, r, func(context.Context, types.Message) error {
		refused.on.Store(true)
		return nil
	})
	require.ErrorContains(t, <-s.Over, "InvalidClientTokenId")
	events := &retrytest.Recorder{}
	s = start(t, retriesOf(q, &retry.Policy{MaxAttempts: 2, Observer: events.Observer()}), fail)
	assert.Equal(t, "a", *q.letter(t).Body)
	s.Stop()
	events.Expect(t, "2: gave up (attempts): "+assert.AnError.Error())
}

// A queue that is deleted ends Run.
func TestGone(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	r := retriesOf(q, nil)
	r.Dead, r.QueueURL = q.dead, q.create("enginetest-gone-"+q.name(), nil)
	s := start(t, r, fail)
	time.Sleep(100 * time.Millisecond)
	testkit.Must(q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &r.QueueURL}))(t)
	require.ErrorContains(t, <-s.Over, "NonExistentQueue")
}

// A State of somebody else ends the message, or is none.
func TestStates(t *testing.T) {
	t.Parallel()
	const three = "failed after 3 attempts: "
	for state, want := range map[string]string{
		"":                               three, // from a publisher that does not know us
		"f=1":                            three,
		"f=1 x=2 t=2026-01-02T03:04:05Z": three, // of another version
		"lost=1":                         three,
		"lost=-1 due=-99":                three,
		"f=9999":                         "failed after 9999 attempts",
		"lost=9223372036854775807":       "failed after 536870912 attempts",
		"due=9223372036854775807":        three, // after twice the longest wait
		"f=many":                         `f=many: strconv.Atoi: parsing "many": invalid syntax`,
		"f=-1":                           "failures: -1: must not be negative",
		"x":                              "want key=value",
		"due=soon":                       `due=soon: strconv.ParseInt: parsing "soon": invalid syntax`,
		"f=99999999999999999999":         "value out of range",
	} {
		for _, suffix := range []string{"", ".fifo"} {
			t.Run(state+suffix, func(t *testing.T) {
				t.Parallel()
				q := openIdle(t, suffix)
				var attempts atomic.Int64
				s := start(t, retriesOf(q, &retry.Policy{Backoff: retry.Constant(0), MaxRetryAfter: time.Second}), func(_ context.Context, msg types.Message) error {
					assert.NotContains(t, msg.MessageAttributes, "retry-state")
					attempts.Add(1)
					return assert.AnError
				})
				attributes := map[string]string{"tenant": "x"}
				if state != "" {
					attributes["retry-state"] = state
				}
				require.NoError(t, q.send(t.Context(), "a", attributes))
				m := q.letter(t)
				s.Stop()
				assert.Contains(t, reason(m), want)
				assert.Len(t, m.MessageAttributes, 2)
				assert.Equal(t, "x", *m.MessageAttributes["tenant"].StringValue)
				assert.Equal(t, map[string]int64{
					"": 3, "f=1": 2, "f=1 x=2 t=2026-01-02T03:04:05Z": 2, "lost=1": 2, "lost=-1 due=-99": 3, "due=9223372036854775807": 3,
				}[state], attempts.Load())
				assert.Empty(t, s.Faults)
				assert.Equal(t, "0 0 0", q.counts(t))
			})
		}
	}
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t, "")
	q.kind = "what"
	var said enginekit.Said
	q.told = said.Hear
	enginekit.NoPolicy(t, q, true, said.Next)
	assert.True(t, said.Ever("the function has called runtime.Goexit"))
}

// What was given up and is moved back begins anew. A long error with what SQS does not take is
// shortened.
func TestMovedBack(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	long := errors.New("\x1b[31m" + strings.Repeat("ä", 100_000))
	s := start(t, retriesOf(q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}), func(context.Context, types.Message) error { return long })
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	for range 3 {
		m := q.letter(t)
		text := reason(m)
		assert.Contains(t, text, "failed after 2 attempts: ?[31mä")
		assert.Greater(t, len(text), 8000)
		assert.Less(t, len(text), 9000)
		assert.True(t, utf8.ValidString(text))
		testkit.Must(q.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.dead, ReceiptHandle: m.ReceiptHandle}))(t)
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: m.Body, MessageAttributes: m.MessageAttributes})
		require.NoError(t, err)
	}
	s.Stop()
}

// A message of the largest size has no room for a State: its attempts count. It is given up as
// it is.
func TestLarge(t *testing.T) {
	t.Parallel()
	q, events := openIdle(t, ""), &retrytest.Recorder{}
	large := strings.Repeat("x", 1<<20)
	require.NoError(t, q.send(t.Context(), large, nil))
	p := &retry.Policy{MaxAttempts: 2, FreeRateLimits: 100, Observer: events.Observer(), Rand: zero{}}
	s := start(t, retriesOf(q, p), func(context.Context, types.Message) error {
		return retry.MarkRateLimited(assert.AnError, time.Second)
	})
	require.ErrorContains(t, s.Fault(), "no copy can be sent, so that the attempt counts")
	require.ErrorContains(t, s.Fault(), "no copy can be sent, so that the attempt counts")
	require.ErrorContains(t, s.Fault(), "given up, and has no room for the reason: failed after 2 attempts")
	m := q.letter(t)
	s.Stop()
	assert.Equal(t, large, *m.Body)
	assert.Empty(t, m.MessageAttributes)
	const limited = ": assert.AnError general error for testing: retry in 1s"
	events.Expect(t, "1"+limited, "2"+limited, "2: gave up (attempts): "+retry.ErrLost.Error())
	assert.Equal(t, "0 0 0", q.counts(t))
}

type zero struct{}

func (zero) Uint64() uint64 { return 0 }

// records notes requests.
type records struct{ requests chan map[string]any }

// RoundTrip implements [http.RoundTripper].
func (r *records) RoundTrip(req *http.Request) (*http.Response, error) {
	in := map[string]any{"Action": action(req)}
	if err := peek(req, &in); err != nil {
		return nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if in["Action"] != "ReceiveMessage" && in["Action"] != "GetQueueAttributes" && in["Action"] != "GetQueueUrl" {
		r.requests <- in
	}
	return resp, err
}

// next returns the action of the next request, the time in it, and its State.
func (r *records) next() (action string, d time.Duration, state string) {
	in := <-r.requests
	for _, name := range []string{"VisibilityTimeout", "DelaySeconds"} {
		if n, ok := in[name].(float64); ok {
			d = time.Duration(n) * time.Second
		}
	}
	if attributes, ok := in["MessageAttributes"].(map[string]any); ok {
		state, _ = attributes["retry-state"].(map[string]any)["StringValue"].(string)
	}
	return in["Action"].(string), d, state
}

// SQS hides a message for 12 hours in all. A longer wait needs a copy, which SQS delays for
// 15 minutes. It is then hidden until it is due, or is copied again, and this costs no attempt.
func TestLongWaits(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	for _, test := range []struct {
		state   string
		delay   time.Duration
		actions string
	}{
		{"", 11*time.Hour - time.Minute, "hides for 10h59m0s"},
		{"", 11 * time.Hour, "hides for 30s, copies with f=1 due in 11h0m0s after 15m0s, deletes"},
		{"", math.MaxInt64, "hides for 30s, copies with f=1 due in 2562047h47m0s after 15m0s, deletes"},
		{"f=1 due=", 10 * time.Hour, "hides for 10h0m0s"},
		{"f=1 due=", 24 * time.Hour, "hides for 30s, copies with f=1 due in 24h0m0s after 15m0s, deletes"},
		{"lost=2 due=", 24 * time.Hour, "hides for 30s, copies with lost=2 due in 24h0m0s after 15m0s, deletes"},
	} {
		r, seen := retriesOf(q, &retry.Policy{Backoff: retry.Constant(test.delay), Jitter: retry.NoJitter}), &records{make(chan map[string]any, 10)}
		r.Client, r.Visibility = connect(t, seen), 30*time.Second
		var attributes map[string]string
		if test.state != "" {
			attributes = map[string]string{"retry-state": test.state + fmt.Sprint(time.Now().Add(test.delay).UnixMilli())}
		}
		require.NoError(t, q.send(t.Context(), "a", attributes))
		s := start(t, r, func(context.Context, types.Message) error {
			assert.Empty(t, test.state, "early")
			return assert.AnError
		})
		var actions []string
		for len(actions) < strings.Count(test.actions, ", ")+1 {
			switch action, d, state := seen.next(); action {
			case "ChangeMessageVisibility":
				actions = append(actions, fmt.Sprint("hides for ", d))
			case "SendMessage":
				before, due, _ := strings.Cut(state, "due=")
				var ms int64
				testkit.Must(fmt.Sscan(due, &ms))(t)
				before = strings.Fields(before)[0]
				actions = append(actions, fmt.Sprintf("copies with %s due in %v after %v", before, time.Until(time.UnixMilli(ms)).Round(time.Minute), d))
			case "DeleteMessage":
				actions = append(actions, "deletes")
			default:
				actions = append(actions, action)
			}
		}
		assert.Equal(t, test.actions, strings.Join(actions, ", "))
		s.Stop()
		assert.Empty(t, s.Faults)
	}
	assert.Equal(t, "0 2 4", q.counts(t))
}

// A copy that comes too early is run when it is due, and has lost no attempt by that.
func TestEarly(t *testing.T) {
	t.Parallel()
	q, events := openIdle(t, ""), &retrytest.Recorder{}
	due := time.Now().Add(2500 * time.Millisecond)
	require.NoError(t, q.send(t.Context(), "a", map[string]string{"retry-state": fmt.Sprint("f=1 due=", due.UnixMilli())}))
	s := start(t, retriesOf(q, &retry.Policy{Backoff: retry.Constant(0), Observer: events.Observer()}), func(context.Context, types.Message) error {
		assert.GreaterOrEqual(t, time.Now().UnixMilli(), due.UnixMilli())
		return assert.AnError
	})
	q.letter(t)
	s.Stop()
	events.Expect(t, "2: "+assert.AnError.Error()+": retry in 0s", "3: gave up (attempts): "+assert.AnError.Error())
}

// A message that runs for longer than Visibility stays with its worker. If SQS has given it to
// another one, the first has no say any more.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	q, events := openIdle(t, ""), &retrytest.Recorder{}
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Observer: events.Observer()}
	patient := func(fn func() error) *enginekit.Run {
		r := retriesOf(q, p)
		r.Visibility = 4 * time.Second
		return start(t, r, func(_ context.Context, msg types.Message) error {
			q.mu.Lock()
			q.receipts["a"] = *msg.ReceiptHandle
			q.mu.Unlock()
			return fn()
		})
	}
	first, second := enginekit.Overtaken(t, 5*time.Second, patient, func() error { return q.repeat(t.Context(), "a") }, "MessageNotInflight")
	assert.Contains(t, reason(q.letter(t)), "failed after 2 attempts")
	first.Stop()
	second.Stop()
}

// A RedrivePolicy ends a message whatever the policy says.
func TestRedrive(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	_, err := q.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + q.name() + `-dead","maxReceiveCount":2}`,
	}})
	require.NoError(t, err)
	r := retriesOf(q, nil)
	var attempts atomic.Int64
	r.PolicyFor = func(string) (*retry.Policy, error) {
		return &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}, nil
	}
	s := start(t, r, func(context.Context, types.Message) error {
		attempts.Add(1)
		return assert.AnError
	})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	assert.Empty(t, reason(q.letter(t)))
	s.Stop()
	assert.EqualValues(t, 2, attempts.Load())
}

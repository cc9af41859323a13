package retrysqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// eventOf is what Lambda makes of messages.
func eventOf(t *testing.T, messages []types.Message) (event events.SQSEvent) {
	t.Helper()
	type attribute struct {
		StringValue *string `json:"stringValue"`
		BinaryValue []byte  `json:"binaryValue,omitempty"`
		DataType    *string `json:"dataType"`
	}
	var records []map[string]any
	for _, m := range messages {
		attributes := map[string]attribute{}
		for name, a := range m.MessageAttributes {
			attributes[name] = attribute{a.StringValue, a.BinaryValue, a.DataType}
		}
		records = append(records, map[string]any{
			"messageId": m.MessageId, "receiptHandle": m.ReceiptHandle, "body": m.Body,
			"attributes": m.Attributes, "messageAttributes": attributes,
		})
	}
	text := testkit.Must(json.Marshal(map[string]any{"Records": records}))(t)
	require.NoError(t, json.Unmarshal(text, &event))
	return event
}

// lambda takes the messages of a queue until there are n, has them handled, and deletes those
// that Lambda would delete. It returns the bodies of the others.
func (q *queue) lambda(t *testing.T, r interface {
	HandleLambda(context.Context, events.SQSEvent, func(context.Context, events.SQSMessage) error) (events.SQSEventResponse, error)
}, n int, fn func(context.Context, events.SQSMessage) error,
) (again []string) {
	t.Helper()
	messages := q.take(t, q.url, n)
	response := testkit.Must(r.HandleLambda(t.Context(), eventOf(t, messages), fn))(t)
	for _, m := range messages {
		if slices.Contains(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: *m.MessageId}) {
			again = append(again, *m.Body)
			continue
		}
		testkit.Must(q.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle}))(t)
	}
	slices.Sort(again)
	return again
}

// Only messages that come again by themselves are failures to Lambda.
func TestLambda(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	r := retriesOf(q, &retry.Policy{MaxAttempts: 2, FreeRateLimits: 5, Backoff: retry.Constant(2 * time.Second), Jitter: retry.NoJitter, Rand: zero{}})
	r.Concurrency, r.Visibility = 3, 30*time.Second
	for _, job := range []string{"done", "fails", "final", "limited", "panics"} {
		require.NoError(t, q.send(t.Context(), job, map[string]string{"tenant": "x"}))
	}
	var attempts, limited atomic.Int64
	work := func(_ context.Context, m events.SQSMessage) error {
		assert.Equal(t, "x", *m.MessageAttributes["tenant"].StringValue)
		switch m.Body {
		case "fails":
			attempts.Add(1)
			return errors.New("boom")
		case "final":
			return retry.MarkFinal(errors.New("invalid"))
		case "limited":
			limited.Add(1)
			return retry.MarkRateLimited(errors.New("429"), time.Second)
		case "panics":
			panic("out of range")
		}
		return nil
	}
	assert.Equal(t, []string{"fails"}, q.lambda(t, r, 5, work))
	assert.Equal(t, "0 1 1", q.counts(t))
	for limited.Load() < 3 || attempts.Load() < 2 {
		assert.Empty(t, q.lambda(t, r, 1, work))
	}
	dead := map[string]string{}
	for len(dead) < 3 {
		for _, m := range q.take(t, q.dead, 1) {
			dead[*m.Body] = reason(m)
		}
	}
	assert.Equal(t, "invalid", dead["final"])
	assert.Equal(t, "failed after 2 attempts: boom", dead["fails"])
	assert.Contains(t, dead["panics"], "out of range")
}

// TestForeign checks what others have written into a message: counts that cannot be, ten
// attributes, and the header of a trace.
func TestForeign(t *testing.T) {
	t.Parallel()
	full := map[string]events.SQSMessageAttribute{}
	for i := range 10 {
		full[fmt.Sprint("a", i)] = events.SQSMessageAttribute{DataType: "String", StringValue: aws.String("x")}
	}
	const trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
	const kept = `"AWSTraceHeader":{"DataType":"String","StringValue":"` + trace
	for name, test := range map[string]struct {
		count      string
		attributes map[string]events.SQSMessageAttribute
		result     error
		calls      int
		sent, told []string // parts of what SQS and OnError are told
	}{
		"less than none":      {"-5", nil, errFinal, 1, []string{kept, `"retry-error":{"DataType":"String","StringValue":"invalid"}`}, nil},
		"more than ever":      {"99999999999999999999", nil, nil, 0, []string{kept, "failed after 536870911 attempts"}, nil},
		"no number":           {"many", nil, nil, 0, nil, []string{"no ApproximateReceiveCount"}},
		"a copy":              {"1", nil, errLimited, 1, []string{kept, `"retry-state"`}, nil},
		"full, and given up":  {"1", full, errFinal, 1, []string{kept, `"a9"`}, []string{"no room for the reason: invalid"}},
		"full, and has waits": {"1", full, errLimited, 1, nil, []string{"has 10 attributes, and SQS allows no more"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			r := f.retries(&retry.Policy{FreeRateLimits: 1})
			var told []string
			r.OnError = func(_ context.Context, err error) { told = append(told, err.Error()) }
			calls := 0
			_, err := r.HandleLambda(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{
				MessageId: "m", Body: "a", MessageAttributes: test.attributes,
				Attributes: map[string]string{"ApproximateReceiveCount": test.count, "AWSTraceHeader": trace},
			}}}, func(context.Context, events.SQSMessage) error {
				calls++
				return test.result
			})
			require.NoError(t, err)
			assert.Equal(t, test.calls, calls)
			for _, all := range []struct{ got, want []string }{{f.sent, test.sent}, {told, test.told}} {
				assert.Len(t, all.got, min(len(all.want), 1))
				for _, want := range all.want {
					assert.Contains(t, fmt.Sprint(all.got), want)
				}
			}
		})
	}
}

// In a FIFO queue, messages behind one that comes again wait for it.
func TestLambdaFIFO(t *testing.T) {
	t.Parallel()
	q := openIdle(t, ".fifo")
	for _, group := range []string{"a", "b"} { // the emulator gives one message of a group
		require.NoError(t, q.send(t.Context(), group, nil))
	}
	all := q.take(t, q.url, 2)
	slices.SortFunc(all, func(x, y types.Message) int { return len(*x.Body) - len(*y.Body) })
	behind := all[0]
	behind.Body, behind.MessageId = aws.String("behind"), aws.String("behind")
	var tried []string
	response, err := retriesOf(q, nil).HandleLambda(t.Context(), eventOf(t, append([]types.Message{all[0], behind}, all[1:]...)),
		func(_ context.Context, m events.SQSMessage) error {
			if tried = append(tried, m.Body); m.Body == *all[0].Body {
				return assert.AnError
			}
			return nil
		})
	require.NoError(t, err)
	assert.Equal(t, []string{*all[0].Body, *all[1].Body}, tried)
	assert.Equal(t, []events.SQSBatchItemFailure{{ItemIdentifier: *all[0].MessageId}, {ItemIdentifier: "behind"}}, response.BatchItemFailures)
}

// The function stops while there is time to tell SQS. A queue that cannot be asked fails the batch.
func TestLambdaEnds(t *testing.T) {
	t.Parallel()
	q := openIdle(t, "")
	r := retriesOf(q, &retry.Policy{MaxAttempts: 1})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	messages := q.take(t, q.url, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	response, err := r.HandleLambda(ctx, eventOf(t, messages), func(attempt context.Context, _ events.SQSMessage) error {
		<-attempt.Done()
		assert.NoError(t, ctx.Err())
		return attempt.Err()
	})
	require.NoError(t, err)
	assert.Empty(t, response)
	assert.Contains(t, reason(q.letter(t)), "failed after 1 attempt")

	r = retriesOf(q, nil)
	r.QueueURL += "-none"
	_, err = r.HandleLambda(t.Context(), eventOf(t, messages), func(context.Context, events.SQSMessage) error { return nil })
	require.ErrorContains(t, err, "NonExistentQueue")
	delete(messages[0].Attributes, "ApproximateReceiveCount")
	r = retriesOf(q, nil)
	var told error
	r.OnError = func(_ context.Context, err error) { told = err }
	response = testkit.Must(r.HandleLambda(t.Context(), eventOf(t, messages), func(context.Context, events.SQSMessage) error { return nil }))(t)
	assert.Len(t, response.BatchItemFailures, 1)
	assert.ErrorContains(t, told, "the message has no ApproximateReceiveCount")
}

// The emulator does as the documentation of SQS says, in what the adapter needs. What it does not
// is in the package comment.
func TestEmulator(t *testing.T) {
	t.Parallel()
	q := openIdle(t, ".fifo")
	group := func(group, body string) {
		testkit.Must(q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body,
		}))(t)
	}
	group("g", "1")
	group("g", "2")
	group("g", "2") // a duplicate
	group("h", "3")
	first := receive(t.Context(), q.client, q.url, 1)
	require.Len(t, first, 2, "one of each group")
	assert.Empty(t, receive(t.Context(), q.client, q.url, 1), "a group is blocked while one of its messages is hidden")
	hide := func(m types.Message, seconds int32) error {
		_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
		})
		return err
	}
	hidden := time.Now()
	require.NoError(t, hide(first[0], 1))
	again := receive(t.Context(), q.client, q.url, 5)
	require.Len(t, again, 1)
	assert.GreaterOrEqual(t, time.Since(hidden), 900*time.Millisecond)
	assert.Equal(t, *first[0].Body, *again[0].Body, "the order stays")
	for i, m := range []types.Message{first[0], again[0]} {
		assert.Equal(t, fmt.Sprint(i+1), m.Attributes["ApproximateReceiveCount"])
		assert.Equal(t, first[0].Attributes["ApproximateFirstReceiveTimestamp"], m.Attributes["ApproximateFirstReceiveTimestamp"])
	}
	require.Error(t, hide(first[0], 1), "the receipt is an old one")
	require.Error(t, hide(again[0], 12*60*60+1))
}

package retrysqs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
)

// fake is an HTTP client whose SQS has one message, and is silent when it is told to be.
type fake struct {
	silent     func(action string, n int) bool // n counts the requests of an action from 1
	attributes map[string]string               // of the message, besides its count

	mu       sync.Mutex
	requests map[string]int
	sent     []string // the bodies of the requests to send
}

// Do implements [sqs.HTTPClient].
func (f *fake) Do(req *http.Request) (*http.Response, error) {
	name := action(req)
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.requests == nil {
		f.requests = map[string]int{}
	}
	f.requests[name]++
	n := f.requests[name]
	if name == "SendMessage" {
		f.sent = append(f.sent, string(body))
	}
	f.mu.Unlock()
	if f.silent != nil && f.silent(name, n) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	answer := "{}"
	switch {
	case name == "ReceiveMessage" && n == 1:
		answer = fmt.Sprintf(`{"Messages": [{"MessageId": "m", "ReceiptHandle": "r", "Body": "a", "Attributes": %s}]}`, f.system())
	case name == "ReceiveMessage":
		select {
		case <-time.After(5 * time.Second):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: req,
	}, nil
}

// seen returns how many requests there were of each action.
func (f *fake) seen() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.requests)
}

// system returns the system attributes of the message.
func (f *fake) system() string {
	parts := []string{`"ApproximateReceiveCount": "1"`}
	for _, name := range slices.Sorted(maps.Keys(f.attributes)) {
		parts = append(parts, fmt.Sprintf("%q: %q", name, f.attributes[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// retries returns Retries with the client's default settings.
func (f *fake) retries(p *retry.Policy) *retrysqs.Retries {
	return &retrysqs.Retries{
		Policy: p, QueueURL: "http://sqs.test/1/q", Dead: "http://sqs.test/1/dead", OnError: func(context.Context, error) {},
		Client: sqs.New(sqs.Options{
			Region: "us-east-1", BaseEndpoint: aws.String("http://sqs.test"), HTTPClient: f,
			Credentials: aws.AnonymousCredentials{}, DisableMessageChecksumValidation: true,
		}),
	}
}

var (
	errFinal   = retry.MarkFinal(errors.New("invalid"))
	errLimited = retry.MarkRateLimited(errors.New("429"), time.Second)
)

// Run returns in the time that it says, whatever SQS no longer answers to. Before that, one
// message has been handled for an hour.
func TestSilentStop(t *testing.T) {
	t.Parallel()
	free := &retry.Policy{FreeRateLimits: 1}
	for _, test := range []struct {
		silent string
		result error // of the function
		most   time.Duration
	}{
		{"ReceiveMessage", nil, 15 * time.Second},
		{"DeleteMessage", nil, 100 * time.Second},
		{"ChangeMessageVisibility", nil, 100 * time.Second},
		{"ChangeMessageVisibility", assert.AnError, 100 * time.Second},
		{"ChangeMessageVisibility", errLimited, 100 * time.Second},
		{"SendMessage", errFinal, 100 * time.Second},
		{"SendMessage", errLimited, 100 * time.Second},
		{"", errLimited, 100 * time.Second},
	} {
		t.Run(fmt.Sprint(test.silent, " ", test.result), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{silent: func(action string, n int) bool {
					return strings.HasPrefix(action, test.silent) && n > 1 || action == test.silent && test.silent != "ReceiveMessage"
				}}
				ctx, cancel := context.WithCancel(t.Context())
				var over time.Time
				err := make(chan error, 1)
				go func() {
					err <- f.retries(free).Run(ctx, func(context.Context, types.Message) error {
						defer func() { over = time.Now() }()
						time.Sleep(time.Hour)
						cancel()
						return test.result
					})
				}()
				require.NoError(t, <-err)
				t.Logf("returned after %v", time.Since(over))
				assert.LessOrEqual(t, time.Since(over), test.most)
			})
		})
	}
}

// A silent beginning ends with an error.
func TestSilentBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{silent: func(string, int) bool { return true }}
		begun := time.Now()
		require.ErrorContains(t, f.retries(nil).Run(t.Context(), fail), "SQS has not answered in time")
		assert.LessOrEqual(t, time.Since(begun), 30*time.Second)
		assert.Equal(t, 3, f.requests["GetQueueAttributes"])
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.NoError(t, f.retries(nil).Run(ctx, fail), "its context has ended")
	})
}

// One answer that never comes, as when a connection is forgotten on its way, changes nothing: the
// request is made again, and the message ends as it would have.
func TestSilentOnce(t *testing.T) {
	t.Parallel()
	for action, result := range map[string]error{
		"GetQueueAttributes": nil, "ReceiveMessage": nil, "DeleteMessage": nil, "ChangeMessageVisibility": assert.AnError, "SendMessage": errFinal,
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{silent: func(name string, n int) bool {
					return name == action && (n == 1 && name != "ReceiveMessage" || n == 2)
				}}
				ctx, cancel := context.WithCancel(t.Context())
				r := f.retries(nil)
				var told []string
				r.OnError = func(_ context.Context, err error) { told = append(told, err.Error()) }
				time.AfterFunc(time.Hour, cancel)
				calls := 0
				require.NoError(t, r.Run(ctx, func(context.Context, types.Message) error {
					calls++
					time.Sleep(15 * time.Second) // for one heartbeat
					return result
				}))
				assert.Equal(t, 1, calls)
				assert.Greater(t, f.requests["ReceiveMessage"], 600, "Run went on")
				assert.Equal(t, result != assert.AnError, f.requests["DeleteMessage"] > 0)
				assert.Equal(t, result == errFinal, f.requests["SendMessage"] > 0)
				if action != "ReceiveMessage" {
					assert.Empty(t, told)
				}
			})
		})
	}
}

// A message is hidden while it is given up, however long that takes.
func TestSilentDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{silent: func(action string, n int) bool { return action == "SendMessage" && n < 6 }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		r := f.retries(nil)
		r.Visibility = 33 * time.Second
		require.NoError(t, r.Run(ctx, func(context.Context, types.Message) error { return errFinal }))
		assert.Equal(t, 6, f.requests["SendMessage"])
		assert.Equal(t, 4, f.requests["ChangeMessageVisibility"], "every 11 s of 50")
		assert.Equal(t, 1, f.requests["DeleteMessage"])
	})
}

// HandleLambda returns before the function's time is over, with what has not ended: whatever SQS
// does not answer to, and also if the function does not heed its context.
func TestSilentLambda(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		silent, want string
		result       error
	}{
		{"", "[]", nil},
		{"", "[3 9]", context.DeadlineExceeded}, // of a function that goes on; the last one is not begun
		{"ChangeMessageVisibility", "[3]", assert.AnError},
		{"ChangeMessageVisibility", "[3]", errLimited},
		{"SendMessage", "[3]", errFinal},
		{"SendMessage", "[3]", errLimited},
		{"GetQueueAttributes", "SQS has not answered in time", nil},
	} {
		t.Run(fmt.Sprint(test.silent, " ", test.result), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{silent: func(action string, _ int) bool { return action == test.silent }}
				var event events.SQSEvent
				for i := range 10 {
					event.Records = append(event.Records, events.SQSMessage{
						MessageId: fmt.Sprint(i), Attributes: map[string]string{"ApproximateReceiveCount": "1"},
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				goesOn := make(chan struct{})
				r := f.retries(&retry.Policy{FreeRateLimits: 1})
				r.Concurrency = 3
				response, err := r.HandleLambda(ctx, event, func(ctx context.Context, m events.SQSMessage) error {
					switch {
					case m.MessageId == "3" && test.result == context.DeadlineExceeded:
						<-goesOn
					case m.MessageId == "3":
						return test.result
					case m.MessageId == "9" && test.result == context.DeadlineExceeded:
						<-goesOn
					}
					return nil
				})
				assert.NoError(t, ctx.Err())
				again := []string{}
				for _, failure := range response.BatchItemFailures {
					again = append(again, failure.ItemIdentifier)
				}
				if got := fmt.Sprint(again); err != nil {
					assert.ErrorContains(t, err, test.want)
				} else {
					assert.Equal(t, test.want, got)
				}
				requests := f.seen()
				close(goesOn)
				synctest.Wait()
				assert.Equal(t, requests, f.seen(), "SQS is told nothing after Lambda")
			})
		})
	}
}

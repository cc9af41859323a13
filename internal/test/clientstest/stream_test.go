package clientstest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

func aMinute(p *retry.Policy) { p.AttemptTimeout = time.Minute }

// open starts to read an object.
var open = map[string]func(t *testing.T, w world) (io.ReadCloser, error){
	"minio-go": func(t *testing.T, w world) (io.ReadCloser, error) {
		t.Helper()
		core := minio.Core{Client: must(newMinIO("id", "secret", w.http))}
		body, _, _, err := core.GetObject(t.Context(), "bucket", "key", minio.GetObjectOptions{})
		return body, err
	},
	"aws-sdk-go": func(t *testing.T, w world) (io.ReadCloser, error) {
		t.Helper()
		out, err := newAWS(awsConfig, w.http).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	},
}

// An object that is read in the time of its attempt is read to the end, and one that stalls is
// not waited for any longer.
func TestObjectWithinAttemptTimeout(t *testing.T) {
	t.Parallel()
	beginning := large[:1000]
	stall := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		s3Object(string(beginning))(w, r)
		_ = http.NewResponseController(w).Flush()
		untilGone(r)
	}
	for name, tt := range map[string]struct {
		object step
		read   time.Duration // how long it is read
		want   []byte
		err    error
	}{
		"read":   {s3Object(string(large)), 59 * time.Second, large, nil},
		"stalls": {stall, time.Minute, beginning, context.DeadlineExceeded},
	} {
		for sdk, open := range open {
			t.Run(name+", "+sdk, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, serve(t, s3Failed(503), tt.object), aMinute)

				body, err := open(t, w)
				require.NoError(t, err)
				defer func() { _ = body.Close() }()
				got := make([]byte, len(beginning))
				_, err = io.ReadFull(body, got)
				require.NoError(t, err)
				w.clock.Advance(tt.read)
				rest, err := io.ReadAll(body)

				require.ErrorIs(t, err, tt.err)
				assert.True(t, bytes.Equal(tt.want, append(got, rest...)), "the object")
				assert.Equal(t, firstWaits[:1], w.clock.Sleeps())
			})
		}
	}
}

// conversation is a stream of events, as a client reads it.
type conversation interface {
	Next() bool
	Err() error
	Close() error
}

var talk = []struct {
	name string
	// event is what the server sends.
	event  string
	stream func(ctx context.Context, h *http.Client) (conversation, func() string)
}{
	{
		"openai-go",
		`data: {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": %q}}]}` + "\n\n",
		func(ctx context.Context, h *http.Client) (conversation, func() string) {
			c := newOpenAI("key", h)
			stream := c.Chat.Completions.NewStreaming(ctx, question)
			return stream, func() string { return stream.Current().Choices[0].Delta.Content }
		},
	},
	{
		"anthropic-sdk-go",
		"event: content_block_delta\n" +
			`data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": %q}}` + "\n\n",
		func(ctx context.Context, h *http.Client) (conversation, func() string) {
			c := newAnthropic("key", h)
			stream := c.Messages.NewStreaming(ctx, message)
			return stream, func() string {
				delta, _ := stream.Current().AsAny().(anthropic.ContentBlockDeltaEvent)
				return delta.Delta.Text
			}
		},
	},
}

// say sends an event.
func say(w http.ResponseWriter, event, text string) {
	_, _ = fmt.Fprintf(w, event, text)
	_ = http.NewResponseController(w).Flush()
}

func TestEventsArriveWhenTheyAreSent(t *testing.T) {
	t.Parallel()
	for _, tt := range talk {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // if it hangs
			defer cancel()
			heard := make(chan struct{})
			s := serve(t, answer(429, "application/json", `{}`, "Retry-After", "2"), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				say(w, tt.event, "one")
				select {
				case <-heard:
					say(w, tt.event, "two")
				case <-r.Context().Done():
				}
			})
			w := newWorld(t, s, aMinute)

			stream, text := tt.stream(ctx, w.http)
			defer func() { _ = stream.Close() }()
			require.True(t, stream.Next(), "%v", stream.Err())
			assert.Equal(t, "one", text())
			close(heard) // only now the server goes on
			require.True(t, stream.Next(), "%v", stream.Err())
			assert.Equal(t, "two", text())
			assert.False(t, stream.Next())
			require.NoError(t, stream.Err())
			w.hinted(t, 2*time.Second)
			s.assertSame(t)
		})
	}
}

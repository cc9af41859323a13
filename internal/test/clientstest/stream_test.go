package clientstest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
var open = map[string]func(t *testing.T, w world, url string) (io.ReadCloser, error){
	"minio-go": func(t *testing.T, w world, url string) (io.ReadCloser, error) {
		t.Helper()
		core := minio.Core{Client: minioClient(t, w.http.Transport, url)}
		body, _, _, err := core.GetObject(t.Context(), "bucket", "key", minio.GetObjectOptions{})
		return body, err
	},
	"aws-sdk-go": func(t *testing.T, w world, url string) (io.ReadCloser, error) {
		t.Helper()
		out, err := awsClient(w.http, url).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	},
}

// An object that is read in the time of its attempt is read to the end.
func TestObjectIsReadToTheEndWithinAttemptTimeout(t *testing.T) {
	t.Parallel()
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aMinute)
			s := serve(t, s3Failed(503), s3Object(string(large)))

			body, err := open(t, w, s.URL)
			require.NoError(t, err)
			defer func() { _ = body.Close() }()
			w.clock.Advance(59 * time.Second)
			got, err := io.ReadAll(body)

			require.NoError(t, err)
			assert.True(t, string(large) == string(got), "the object")
			assert.Equal(t, []time.Duration{200 * ms}, w.clock.Sleeps())
		})
	}
}

// And one that stalls is not waited for any longer.
func TestObjectThatStallsEndsWithAttemptTimeout(t *testing.T) {
	t.Parallel()
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aMinute)
			s := serve(t, s3Failed(503), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				s3Object("the beginning")(w, r)
				_ = http.NewResponseController(w).Flush()
				untilGone(r)
			})

			body, err := open(t, w, s.URL)
			require.NoError(t, err)
			defer func() { _ = body.Close() }()
			beginning := make([]byte, len("the beginning"))
			_, err = io.ReadFull(body, beginning)
			require.NoError(t, err)
			w.clock.Advance(time.Minute)
			_, err = body.Read(beginning)

			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
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
	stream func(ctx context.Context, h *http.Client, url string) (conversation, func() string)
}{
	{
		"openai-go",
		`data: {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": %q}}]}` + "\n\n",
		func(ctx context.Context, h *http.Client, url string) (conversation, func() string) {
			c := openaiClient(h, url)
			stream := c.Chat.Completions.NewStreaming(ctx, question)
			return stream, func() string { return stream.Current().Choices[0].Delta.Content }
		},
	},
	{
		"anthropic-sdk-go",
		"event: content_block_delta\n" +
			`data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": %q}}` + "\n\n",
		func(ctx context.Context, h *http.Client, url string) (conversation, func() string) {
			c := anthropicClient(h, url)
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
			w := newWorld(t, aMinute)
			s := serve(t, answer(429, "application/json", `{}`, "Retry-After", "2"), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				say(w, tt.event, "one")
				select {
				case <-heard:
					say(w, tt.event, "two")
				case <-r.Context().Done():
				}
			})

			stream, text := tt.stream(ctx, w.http, s.URL)
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

func TestStreamThatBreaksOffIsNotRetried(t *testing.T) {
	t.Parallel()
	for _, tt := range talk {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				say(w, tt.event, "one")
				panic(http.ErrAbortHandler)
			})

			stream, text := tt.stream(t.Context(), w.http, s.URL)
			defer func() { _ = stream.Close() }()
			require.True(t, stream.Next(), "%v", stream.Err())
			assert.Equal(t, "one", text())
			assert.False(t, stream.Next())
			require.ErrorIs(t, stream.Err(), io.ErrUnexpectedEOF)
			assert.Empty(t, w.clock.Sleeps())
		})
	}
}

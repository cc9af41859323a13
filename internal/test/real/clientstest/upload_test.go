package clientstest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// large is more than what net/http and the kernel buffer, and more than the 2 MiB
// from which on the AWS SDK sends Expect: 100-continue.
var large = func() []byte {
	b := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// keeping lets the Transport keep bodies of up to n bytes.
func (w world) keeping(n int) world {
	transport := w.http.Transport.(*retryhttp.Transport)
	transport.BufferBody = int64(n)
	return w
}

// upload is a way to upload a file to S3.
type upload struct {
	name  string
	start func(http.Handler) *httptest.Server
	put   func(ctx context.Context, t *testing.T, h *http.Client, url string, file *os.File) error
	// hashed: the signature covers a hash of the whole content
	hashed bool
}

var uploads = []upload{
	{"minio-go, signed in chunks", httptest.NewServer, minioPut, false},
	{"minio-go over TLS", httptest.NewTLSServer, minioPut, false},
	{"aws-sdk-go, hashed", httptest.NewServer, awsPut, true},
	{"aws-sdk-go over TLS, with a checksum in the trailer", httptest.NewTLSServer, awsPut, false},
}

// minioPut and awsPut use the scheme and the host of the server, on which the signature depends.
func minioPut(ctx context.Context, t *testing.T, h *http.Client, address string, file *os.File) error {
	t.Helper()
	scheme, host, _ := strings.Cut(address, "://")
	client := testkit.Must(minio.New(host, &minio.Options{
		Creds: credentials.NewStaticV4("id", "secret", ""), Region: "us-east-1",
		Secure: scheme == "https", Transport: h.Transport, MaxRetries: 1,
	}))(t)
	_, err := client.PutObject(ctx, "bucket", "key", file, int64(len(large)), minio.PutObjectOptions{})
	return err
}

func awsPut(ctx context.Context, t *testing.T, h *http.Client, address string, file *os.File) error {
	t.Helper()
	_, err := newAWS(awsConfig, h).PutObject(ctx, put(file), at(address))
	return err
}

func at(address string) func(*s3.Options) {
	return func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = aws.String(address), true }
}

func put(file *os.File) *s3.PutObjectInput {
	return &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key"), Body: file}
}

func largeFile(t *testing.T) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, large, 0o600))
	file := testkit.Must(os.Open(name))(t)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

var stored = answer(200, "", "", "Etag", `"0123456789abcdef0123456789abcdef"`)

// A request that is sent again is the same one, so its signature and its hashes
// hold.
func TestUploadIsSentAgainByteForByte(t *testing.T) {
	t.Parallel()
	for _, u := range uploads {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, u.start, reset, s3Failed(503), stored)
			w := newWorldOver(s.Client().Transport).keeping(2 * len(large)) // signatures come on top

			require.NoError(t, u.put(t.Context(), t, w.http, s.URL, largeFile(t)))
			assert.Equal(t, firstWaits, w.clock.Sleeps())
			r := s.got()[0]
			assert.Equal(t, http.MethodPut, r.Method)
			assert.NotEmpty(t, r.Header.Get("Authorization"))
			assert.GreaterOrEqual(t, len(r.Body), len(large))
			if u.hashed {
				sum := sha256.Sum256([]byte(r.Body))
				assert.Equal(t, hex.EncodeToString(sum[:]), r.Header.Get("X-Amz-Content-Sha256"))
			}
			for _, again := range s.got()[1:] {
				assert.True(t, r.Body == again.Body, "the body")
				again.Body = r.Body
				assert.Equal(t, r, again)
			}
		})
	}
}

// The client's own retries rewind the body, and a Transport without a way to do
// so does not multiply them.
func TestUploadWithTheRetriesOfTheClient(t *testing.T) {
	t.Parallel()
	s := serve(t, s3Failed(503), s3Failed(503), stored)
	w := newWorldOver(s.Client().Transport)
	retries := func(o *s3.Options) {
		o.Retryer = awsretry.NewStandard(func(o *awsretry.StandardOptions) {
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}

	_, err := newAWS(awsConfig, w.http).PutObject(t.Context(), put(largeFile(t)), at(s.URL), retries)

	require.NoError(t, err)
	assert.Empty(t, w.clock.Sleeps())
	for _, r := range s.got() {
		assert.True(t, string(large) == r.Body, "the body")
	}
}

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

				body := testkit.Must(open(t, w))(t)
				defer func() { _ = body.Close() }()
				got := make([]byte, len(beginning))
				testkit.Must(io.ReadFull(body, got))(t)
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

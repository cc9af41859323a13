package clientstest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	// reported returns what the client's own error type says.
	reported func(t *testing.T, err error) (status int, message string)
	// hashed: the signature covers a hash of the whole content
	hashed bool
}

var uploads = []upload{
	{"minio-go, signed in chunks", httptest.NewServer, minioPut, clients[1].reported, false},
	{"minio-go over TLS", httptest.NewTLSServer, minioPut, clients[1].reported, false},
	{"aws-sdk-go, hashed", httptest.NewServer, awsPut, clients[2].reported, true},
	{"aws-sdk-go over TLS, with a checksum in the trailer", httptest.NewTLSServer, awsPut, clients[2].reported, false},
}

func minioPut(ctx context.Context, t *testing.T, h *http.Client, url string, file *os.File) error {
	t.Helper()
	_, err := minioClient(t, h.Transport, url).PutObject(ctx, "bucket", "key", file, int64(len(large)), minio.PutObjectOptions{})
	return err
}

func awsPut(ctx context.Context, t *testing.T, h *http.Client, url string, file *os.File) error {
	t.Helper()
	_, err := awsClient(h, url).PutObject(ctx, put(file))
	return err
}

func put(file *os.File) *s3.PutObjectInput {
	return &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key"), Body: file}
}

func largeFile(t *testing.T) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, large, 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
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

			err := u.put(t.Context(), t, w.http, s.URL, largeFile(t))

			require.NoError(t, err)
			assert.Equal(t, []time.Duration{200 * ms, 400 * ms}, w.clock.Sleeps())
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

func TestUploadIsSentOnceIfItsBodyIsNotKept(t *testing.T) {
	t.Parallel()
	for _, u := range uploads {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, u.start, s3Failed(503))
			w := newWorldOver(s.Client().Transport)

			err := u.put(t.Context(), t, w.http, s.URL, largeFile(t))

			status, message := u.reported(t, err)
			assert.Equal(t, 503, status)
			assert.Equal(t, "no luck", message)
			assert.Empty(t, w.clock.Sleeps())
		})
	}
}

// The client's own retries rewind the body, and a Transport without a way to do
// so does not multiply them.
func TestUploadWithTheRetriesOfTheClient(t *testing.T) {
	t.Parallel()
	s := serve(t, s3Failed(503), s3Failed(503), stored)
	w := newWorldOver(s.Client().Transport)
	c := awsClient(w.http, s.URL, func(o *s3.Options) {
		o.Retryer = awsretry.NewStandard(func(o *awsretry.StandardOptions) {
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	})

	_, err := c.PutObject(t.Context(), put(largeFile(t)))

	require.NoError(t, err)
	assert.Empty(t, w.clock.Sleeps())
	for _, r := range s.got() {
		assert.True(t, string(large) == r.Body, "the body")
	}
}

// A server that has heard enough answers while the body is still on its way.
func TestUploadThatIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	for _, u := range uploads {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			got := make(chan []byte, 1)
			s := u.start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) < 3 {
					s3Failed(503)(w, r)
					return
				}
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				got <- body
				stored(w, r)
			}))
			t.Cleanup(s.Close)
			w := newWorldOver(s.Client().Transport).keeping(2 * len(large))

			err := u.put(t.Context(), t, w.http, s.URL, largeFile(t))

			require.NoError(t, err)
			assert.Len(t, w.clock.Sleeps(), 2)
			body := <-got
			if u.hashed {
				assert.True(t, bytes.Equal(large, body), "the body")
			}
			assert.GreaterOrEqual(t, len(body), len(large))
		})
	}
}

package clientstest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
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
	client, err := minio.New(host, &minio.Options{
		Creds: credentials.NewStaticV4("id", "secret", ""), Region: "us-east-1",
		Secure: scheme == "https", Transport: h.Transport, MaxRetries: 1,
	})
	require.NoError(t, err)
	_, err = client.PutObject(ctx, "bucket", "key", file, int64(len(large)), minio.PutObjectOptions{})
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

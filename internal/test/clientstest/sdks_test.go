package clientstest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"
	"github.com/go-resty/resty/v2"
	"github.com/google/go-github/v92/github"
	"github.com/googleapis/gax-go/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/imroc/req/v3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"google.golang.org/api/option"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// sdk is one that retries by itself, or might. docs/sdks.md has a row for each, with
// these numbers.
type sdk struct {
	name string
	// off and on return the same client: one as docs/sdks.md sets it up, and one with its
	// own retries, as they are by default but for waits that are shorter.
	off, on func(t *testing.T, h *http.Client) calls
	// theirs is how many requests its own retries make of a read that always fails.
	theirs int
	// both is how many it makes with the retries of a Transport beneath, and no budget.
	both int
	// writes is how many requests a Transport makes of a write that is always rate
	// limited: 1 if the body cannot be had again.
	writes int
}

// calls are a read and a write. Their errors are those of the SDK.
type calls struct {
	read, write func(ctx context.Context) error
}

// content is what is uploaded.
const content = "hello, hello"

var sdks = []sdk{
	{
		name: "aws-sdk-go-v2",
		off:  func(_ *testing.T, h *http.Client) calls { return awsCalls(newAWS(awsConfig, h)) },
		on: func(_ *testing.T, h *http.Client) calls {
			cfg := awsConfig
			cfg.HTTPClient = h
			return awsCalls(s3.NewFromConfig(cfg))
		},
		theirs: 3, both: 9, writes: 1,
	},
	{
		name: "azure-sdk-for-go",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := newAzure("https://account.blob.core.windows.net/", azureToken{}, h)
			require.NoError(t, err)
			return azureCalls(client)
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := azblob.NewClient("https://account.blob.core.windows.net/", azureToken{}, &azblob.ClientOptions{
				ClientOptions: policy.ClientOptions{Transport: h, Retry: policy.RetryOptions{RetryDelay: ms}},
			})
			require.NoError(t, err)
			return azureCalls(client)
		},
		theirs: 4, both: 12, writes: 3,
	},
	{
		name: "cloud.google.com/go/storage",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := newGoogle(t.Context(), h)
			require.NoError(t, err)
			return googleCalls(client)
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := storage.NewClient(t.Context(), option.WithHTTPClient(h))
			require.NoError(t, err)
			// By default it goes on until the context is done.
			client.SetRetry(storage.WithBackoff(gax.Backoff{Initial: ms, Max: ms}), storage.WithMaxAttempts(5))
			return googleCalls(client)
		},
		theirs: 5, both: 15, writes: 3,
	},
	{
		name: "stripe-go",
		off:  func(_ *testing.T, h *http.Client) calls { return stripeCalls(newStripe("key", h)) },
		on: func(_ *testing.T, h *http.Client) calls {
			backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{HTTPClient: h})
			return stripeCalls(stripe.NewClient("key", stripe.WithBackends(backends)))
		},
		theirs: 3, both: 9, writes: 3,
	},
	{
		name: "openai-go",
		off:  func(_ *testing.T, h *http.Client) calls { return openaiCalls(newOpenAI("key", h)) },
		on: func(_ *testing.T, h *http.Client) calls {
			return openaiCalls(openai.NewClient(openaioption.WithAPIKey("key"), openaioption.WithHTTPClient(h)))
		},
		theirs: 3, both: 9, writes: 3,
	},
	{
		name: "anthropic-sdk-go",
		off:  func(_ *testing.T, h *http.Client) calls { return anthropicCalls(newAnthropic("key", h)) },
		on: func(_ *testing.T, h *http.Client) calls {
			return anthropicCalls(anthropic.NewClient(anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(h)))
		},
		theirs: 3, both: 9, writes: 3,
	},
	{
		name: "go-github",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := newGitHub("token", h)
			require.NoError(t, err)
			return githubCalls(client)
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := github.NewClient(github.WithHTTPClient(h))
			require.NoError(t, err)
			return githubCalls(client)
		},
		theirs: 1, both: 3, writes: 3,
	},
	{
		name: "minio-go",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := newMinIO("id", "secret", h)
			require.NoError(t, err)
			return minioCalls(client)
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := minio.New("play.min.io", &minio.Options{
				Creds: credentials.NewStaticV4("id", "secret", ""), Secure: true, Transport: h.Transport, Region: "us-east-1",
			})
			require.NoError(t, err)
			return minioCalls(client)
		},
		theirs: 10, both: 30, writes: 1,
	},
	{
		name: "go-elasticsearch",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := newElasticsearch("https://example.com", h)
			require.NoError(t, err)
			return elasticCalls(client)
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client, err := elasticsearch.New(elasticsearch.WithAddresses("https://example.com"),
				elasticsearch.WithTransportOptions(elastictransport.WithTransport(h.Transport)))
			require.NoError(t, err)
			return elasticCalls(client)
		},
		theirs: 4, both: 12, writes: 3,
	},
	{
		name: "resty",
		off:  func(_ *testing.T, h *http.Client) calls { return restyCalls(newResty(h)) },
		on: func(_ *testing.T, h *http.Client) calls { // as its documentation has it
			return restyCalls(resty.NewWithClient(h).SetRetryCount(3).SetRetryWaitTime(ms).SetRetryMaxWaitTime(ms).
				AddRetryCondition(func(r *resty.Response, _ error) bool { return r.StatusCode() >= 500 }))
		},
		theirs: 4, both: 12, writes: 3,
	},
	{
		name: "req",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			return reqCalls(reqClient(t, h))
		},
		on: func(t *testing.T, h *http.Client) calls { // as its documentation has it
			t.Helper()
			return reqCalls(reqClient(t, h).SetCommonRetryCount(3).SetCommonRetryFixedInterval(ms).
				AddCommonRetryCondition(func(r *req.Response, err error) bool { return err != nil || r.StatusCode >= 500 }))
		},
		theirs: 4, both: 12, writes: 3,
	},
	{
		name: "go-retryablehttp",
		off:  func(_ *testing.T, h *http.Client) calls { return retryableCalls(newRetryable(h)) },
		on: func(_ *testing.T, h *http.Client) calls {
			client := retryablehttp.NewClient()
			client.HTTPClient, client.RetryWaitMin, client.RetryWaitMax = h, ms, ms
			return retryableCalls(client)
		},
		theirs: 5, both: 15, writes: 3,
	},
}

// The Transport alone retries what the SDKs would retry themselves; with both, the
// attempts multiply.
func TestSDKsOwnRetries(t *testing.T) {
	t.Parallel()
	for _, sdk := range sdks {
		t.Run(sdk.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				name   string
				client func(*testing.T, *http.Client) calls
				ours   bool
				want   int
			}{
				{"neither", sdk.off, false, 1},
				{"ours", sdk.off, true, 3},
				{"theirs", sdk.on, false, sdk.theirs},
				{"both", sdk.on, true, sdk.both},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					s := failing(t, http.StatusServiceUnavailable)
					h := &http.Client{Transport: s.base}
					if test.ours {
						h.Transport = s.retrying()
					}
					assert.Error(t, test.client(t, h).read(t.Context()))
					assert.Equal(t, test.want, int(s.requests.Load()), "requests")
				})
			}
			t.Run("a write", func(t *testing.T) {
				t.Parallel()
				s := failing(t, http.StatusTooManyRequests)
				assert.Error(t, sdk.off(t, &http.Client{Transport: s.retrying()}).write(t.Context()))
				assert.Equal(t, sdk.writes, int(s.requests.Load()), "requests")
			})
		})
	}
}

// The page says what was counted.
func TestSDKsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sdks.md"))
	require.NoError(t, err)
	anchor := strings.NewReplacer(".", "", "/", "")
	var rows []string
	for _, sdk := range sdks {
		rows = append(rows, fmt.Sprintf("| [%s](#%s) | %d | %d | 3 | %d |\n",
			sdk.name, anchor.Replace(sdk.name), sdk.theirs, sdk.both, sdk.writes))
	}
	assert.Contains(t, string(page), strings.Join(rows, ""))
}

// failingServer answers every request, to whatever host, with the same status.
type failingServer struct {
	base     *http.Transport // leads there
	requests atomic.Int64
}

func failing(t *testing.T, status int) *failingServer {
	t.Helper()
	s := &failingServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
	}))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	s.base = &http.Transport{DialContext: dial, DialTLSContext: dial} // https without TLS
	t.Cleanup(func() {
		s.base.CloseIdleConnections()
		server.Close()
	})
	return s
}

// retrying returns a Transport with the default policy, whose waits cost no time. There is
// no budget, which would hide a part of the requests that multiply.
func (s *failingServer) retrying() *retryhttp.Transport {
	policy := retryhttp.DefaultPolicy()
	policy.Clock = &retrytest.Clock{}
	return &retryhttp.Transport{Base: s.base, Policy: policy, Budget: retryhttp.NoBudget}
}

var awsConfig = aws.Config{
	Region: "us-east-1",
	Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
	}),
}

func awsCalls(client *s3.Client) calls {
	bucket, key := aws.String("bucket"), aws.String("key")
	return calls{
		func(ctx context.Context) error {
			_, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
			return err
		},
		func(ctx context.Context) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader(content)})
			return err
		},
	}
}

// azureToken is a credential.
type azureToken struct{}

func (azureToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func azureCalls(client *azblob.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := client.DownloadStream(ctx, "container", "blob", nil)
			return err
		},
		func(ctx context.Context) error {
			_, err := client.UploadBuffer(ctx, "container", "blob", []byte(content), nil)
			return err
		},
	}
}

func googleCalls(client *storage.Client) calls {
	object := client.Bucket("bucket").Object("object")
	return calls{
		func(ctx context.Context) error {
			_, err := object.NewReader(ctx)
			return err
		},
		func(ctx context.Context) error {
			w := object.NewWriter(ctx)
			_, _ = io.WriteString(w, content)
			return w.Close()
		},
	}
}

func stripeCalls(client *stripe.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := client.V1Customers.Retrieve(ctx, "cus_1", nil)
			return err
		},
		func(ctx context.Context) error {
			_, err := client.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Name: stripe.String(content)})
			return err
		},
	}
}

func openaiCalls(client openai.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := client.Models.Get(ctx, "gpt")
			return err
		},
		func(ctx context.Context) error {
			_, err := client.Chat.Completions.New(ctx, question)
			return err
		},
	}
}

func anthropicCalls(client anthropic.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := client.Models.Get(ctx, "claude", anthropic.ModelGetParams{})
			return err
		},
		func(ctx context.Context) error {
			_, err := client.Messages.New(ctx, message)
			return err
		},
	}
}

func githubCalls(client *github.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, _, err := client.Repositories.Get(ctx, "octo", "cat")
			return err
		},
		func(ctx context.Context) error {
			_, _, err := client.Issues.Create(ctx, "octo", "cat", github.CreateIssueRequest{Title: content})
			return err
		},
	}
}

func minioCalls(client *minio.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := client.StatObject(ctx, "bucket", "key", minio.StatObjectOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := client.PutObject(ctx, "bucket", "key", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
			return err
		},
	}
}

func elasticCalls(client *elasticsearch.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := elasticAnswer(client.Get("index", "id", client.Get.WithContext(ctx)))
			return err
		},
		func(ctx context.Context) error {
			_, err := elasticAnswer(client.Index("index", strings.NewReader(`{"text": "hello"}`), client.Index.WithContext(ctx)))
			return err
		},
	}
}

func restyCalls(client *resty.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := restyAnswer(client.R().SetContext(ctx).Get("https://example.com/"))
			return err
		},
		func(ctx context.Context) error {
			body := map[string]string{"text": content}
			_, err := restyAnswer(client.R().SetContext(ctx).SetBody(body).Post("https://example.com/"))
			return err
		},
	}
}

func reqCalls(client *req.Client) calls {
	return calls{
		func(ctx context.Context) error {
			_, err := reqAnswer(client.R().SetContext(ctx).Get("https://example.com/"))
			return err
		},
		func(ctx context.Context) error {
			body := map[string]string{"text": content}
			_, err := reqAnswer(client.R().SetContext(ctx).SetBody(body).Post("https://example.com/"))
			return err
		},
	}
}

// reqClient returns a client of req that leads where h leads. A client of req keeps its
// own transport, and the one of h may be wrapped around that.
func reqClient(t *testing.T, h *http.Client) *req.Client {
	t.Helper()
	client, base := req.C(), h.Transport
	if ours, ok := base.(*retryhttp.Transport); ok {
		policy := *ours.Policy
		policy.Budget = &retry.Budget{Reserve: 1000} // which would hide a part of the requests that multiply
		client, base = newReq(&policy), ours.Base
	}
	leads, ok := base.(*http.Transport)
	require.True(t, ok)
	client.SetDial(leads.DialContext)
	if leads.DialTLSContext != nil {
		client.SetDialTLS(leads.DialTLSContext)
	}
	t.Cleanup(client.GetTransport().CloseIdleConnections)
	return client
}

func retryableCalls(client *retryablehttp.Client) calls {
	client.Logger = nil
	do := func(ctx context.Context, method string, body []byte) error {
		req, err := retryablehttp.NewRequestWithContext(ctx, method, "https://example.com/", bytes.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		return net.UnknownNetworkError(resp.Status)
	}
	return calls{
		func(ctx context.Context) error { return do(ctx, http.MethodGet, nil) },
		func(ctx context.Context) error { return do(ctx, http.MethodPost, []byte(content)) },
	}
}

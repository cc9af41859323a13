package clientstest_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// calls are a read and a write, which return what they got. The SDK makes their errors.
type calls struct {
	read, write func(ctx context.Context) (string, error)
	// upload is a write whose body is a reader, where the other one has none.
	upload func(ctx context.Context) error
}

// content is what is uploaded.
const content = "hello, hello"

// must returns a client that can be made.
func must[C any](client C, err error) C {
	if err != nil {
		panic(err)
	}
	return client
}

// sdkOf returns that with a name.
func sdkOf(name string) sdk {
	return sdks[slices.IndexFunc(sdks, func(s sdk) bool { return s.name == name })]
}

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
		off: func(_ *testing.T, h *http.Client) calls {
			return azureCalls(must(newAzure("https://account.blob.core.windows.net/", azureToken{}, h)))
		},
		on: func(_ *testing.T, h *http.Client) calls {
			return azureCalls(must(azblob.NewClient("https://account.blob.core.windows.net/", azureToken{}, &azblob.ClientOptions{
				ClientOptions: policy.ClientOptions{Transport: h, Retry: policy.RetryOptions{RetryDelay: ms}},
			})))
		},
		theirs: 4, both: 12, writes: 3,
	},
	{
		name: "cloud.google.com/go/storage",
		off: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			return googleCalls(must(newGoogle(t.Context(), h)))
		},
		on: func(t *testing.T, h *http.Client) calls {
			t.Helper()
			client := must(storage.NewClient(t.Context(), option.WithHTTPClient(h)))
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
		off:  func(_ *testing.T, h *http.Client) calls { return githubCalls(must(newGitHub("token", h))) },
		on: func(_ *testing.T, h *http.Client) calls {
			return githubCalls(must(github.NewClient(github.WithHTTPClient(h))))
		},
		theirs: 1, both: 3, writes: 3,
	},
	{
		name: "minio-go",
		off:  func(_ *testing.T, h *http.Client) calls { return minioCalls(must(newMinIO("id", "secret", h))) },
		on: func(_ *testing.T, h *http.Client) calls {
			return minioCalls(must(minio.New("play.min.io", &minio.Options{
				Creds: credentials.NewStaticV4("id", "secret", ""), Secure: true, Transport: h.Transport, Region: "us-east-1",
			})))
		},
		theirs: 10, both: 30, writes: 3,
	},
	{
		name: "go-elasticsearch",
		off: func(_ *testing.T, h *http.Client) calls {
			return elasticCalls(must(newElasticsearch("https://example.com", h)))
		},
		on: func(_ *testing.T, h *http.Client) calls {
			return elasticCalls(must(elasticsearch.New(elasticsearch.WithAddresses("https://example.com"),
				elasticsearch.WithTransportOptions(elastictransport.WithTransport(h.Transport)))))
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
		off:  func(t *testing.T, h *http.Client) calls { t.Helper(); return reqCalls(reqClient(t, h)) },
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
					base := failing(t, http.StatusServiceUnavailable, test.want)
					h := &http.Client{Transport: base}
					if test.ours {
						h.Transport = retrying(base)
					}
					_, err := test.client(t, h).read(t.Context())
					assert.Error(t, err)
				})
			}
			t.Run("a write", func(t *testing.T) {
				t.Parallel()
				base := failing(t, http.StatusTooManyRequests, sdk.writes)
				client := sdk.off(t, &http.Client{Transport: retrying(base)})
				if client.upload != nil {
					assert.Error(t, client.upload(t.Context()))
				} else {
					_, err := client.write(t.Context())
					assert.Error(t, err)
				}
			})
		})
	}
}

// The page says what was counted.
func TestSDKsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "sdks.md"))
	require.NoError(t, err)
	anchor := strings.NewReplacer(".", "", "/", "")
	var rows []string
	for _, sdk := range sdks {
		rows = append(rows, fmt.Sprintf("| [%s](#%s) | %d | %d | 3 | %d |\n",
			sdk.name, anchor.Replace(sdk.name), sdk.theirs, sdk.both, sdk.writes))
	}
	assert.Contains(t, string(page), strings.Join(rows, ""))
}

// failing returns a transport that leads to a server, which answers every request with the same
// status. There have to be so many.
func failing(t *testing.T, status, requests int) *http.Transport {
	t.Helper()
	return leadingTo(t, serve(t, slices.Repeat([]step{answer(status, "", "")}, requests)...).Listener)
}

// leadingTo returns a transport that leads to a server, whatever the host is.
func leadingTo(t *testing.T, listener net.Listener) *http.Transport {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}
	base := &http.Transport{DialContext: dial, DialTLSContext: dial} // https without TLS
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// retrying returns a Transport with the default policy, whose waits cost no time. There is
// no budget, which would hide a part of the requests that multiply.
func retrying(base *http.Transport) *retryhttp.Transport {
	policy := retryhttp.DefaultPolicy()
	policy.Clock = &retrytest.Clock{}
	return &retryhttp.Transport{Base: base, Policy: policy, Budget: retryhttp.NoBudget}
}

var awsConfig = aws.Config{
	Region: "us-east-1",
	Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
	}),
}

func awsCalls(client *s3.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
			if err != nil {
				return "", err
			}
			defer out.Body.Close()
			content, err := io.ReadAll(out.Body)
			return string(content), err
		},
		write: func(ctx context.Context) (string, error) {
			out, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
			if err != nil {
				return "", err
			}
			return aws.ToString(out.UploadId), nil
		},
		upload: func(ctx context.Context) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("bucket"), Key: aws.String("key"), Body: strings.NewReader(content),
			})
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
		read: func(ctx context.Context) (string, error) {
			_, err := client.DownloadStream(ctx, "container", "blob", nil)
			return "", err
		},
		write: func(ctx context.Context) (string, error) {
			_, err := client.UploadBuffer(ctx, "container", "blob", []byte(content), nil)
			return "", err
		},
	}
}

func googleCalls(client *storage.Client) calls {
	object := client.Bucket("bucket").Object("object")
	return calls{
		read: func(ctx context.Context) (string, error) {
			_, err := object.NewReader(ctx)
			return "", err
		},
		write: func(ctx context.Context) (string, error) {
			w := object.NewWriter(ctx)
			_, _ = io.WriteString(w, content)
			return "", w.Close()
		},
	}
}

func stripeCalls(client *stripe.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			_, err := client.V1Customers.Retrieve(ctx, "cus_1", nil)
			return "", err
		},
		write: func(ctx context.Context) (string, error) {
			_, err := client.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Name: stripe.String(content)})
			return "", err
		},
	}
}

func openaiCalls(client openai.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			model, err := client.Models.Get(ctx, "gpt")
			if err != nil {
				return "", err
			}
			return model.ID, nil
		},
		write: func(ctx context.Context) (string, error) {
			completion, err := client.Chat.Completions.New(ctx, question)
			if err != nil {
				return "", err
			}
			return completion.Choices[0].Message.Content, nil
		},
	}
}

func anthropicCalls(client anthropic.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			model, err := client.Models.Get(ctx, "claude", anthropic.ModelGetParams{})
			if err != nil {
				return "", err
			}
			return model.ID, nil
		},
		write: func(ctx context.Context) (string, error) {
			message, err := client.Messages.New(ctx, message)
			if err != nil {
				return "", err
			}
			return message.Content[0].Text, nil
		},
	}
}

func githubCalls(client *github.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			repo, _, err := client.Repositories.Get(ctx, "octo", "cat")
			return repo.GetName(), err
		},
		write: func(ctx context.Context) (string, error) {
			issue, _, err := client.Issues.Create(ctx, "octo", "cat", github.CreateIssueRequest{Title: "a <title>"})
			return issue.GetTitle(), err
		},
	}
}

func minioCalls(client *minio.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			object, err := client.GetObject(ctx, "bucket", "key", minio.GetObjectOptions{})
			if err != nil { // there is no request before the first Read
				return "", err
			}
			defer func() { _ = object.Close() }()
			content, err := io.ReadAll(object)
			return string(content), err
		},
		write: func(ctx context.Context) (string, error) {
			core := minio.Core{Client: client}
			return core.NewMultipartUpload(ctx, "bucket", "key", minio.PutObjectOptions{})
		},
		upload: func(ctx context.Context) error {
			_, err := client.PutObject(ctx, "bucket", "key", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
			return err
		},
	}
}

func elasticCalls(client *elasticsearch.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			return elasticAnswer(client.Get("index", "id", client.Get.WithContext(ctx)))
		},
		write: func(ctx context.Context) (string, error) {
			return elasticAnswer(client.Index("index", strings.NewReader(`{"text": "<b>"}`), client.Index.WithContext(ctx)))
		},
	}
}

func restyCalls(client *resty.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			return restyAnswer(client.R().SetContext(ctx).Get("https://example.com/"))
		},
		write: func(ctx context.Context) (string, error) {
			body := map[string]string{"text": "<b>"}
			return restyAnswer(client.R().SetContext(ctx).SetBody(body).Post("https://example.com/"))
		},
	}
}

func reqCalls(client *req.Client) calls {
	return calls{
		read: func(ctx context.Context) (string, error) {
			return reqAnswer(client.R().SetContext(ctx).Get("https://example.com/"))
		},
		write: func(ctx context.Context) (string, error) {
			body := map[string]string{"text": "<b>"}
			return reqAnswer(client.R().SetContext(ctx).SetBody(body).Post("https://example.com/"))
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
	leads := base.(*http.Transport)
	client.SetDial(leads.DialContext).SetDialTLS(leads.DialTLSContext)
	t.Cleanup(client.GetTransport().CloseIdleConnections)
	return client
}

func retryableCalls(client *retryablehttp.Client) calls {
	client.Logger = nil
	do := func(ctx context.Context, method string, body []byte) error {
		req := must(retryablehttp.NewRequestWithContext(ctx, method, "https://example.com/", bytes.NewReader(body)))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return cmp.Or(resp.Body.Close(), error(net.UnknownNetworkError(resp.Status)))
	}
	return calls{
		read:  func(ctx context.Context) (string, error) { return "", do(ctx, http.MethodGet, nil) },
		write: func(ctx context.Context) (string, error) { return "", do(ctx, http.MethodPost, []byte(content)) },
	}
}

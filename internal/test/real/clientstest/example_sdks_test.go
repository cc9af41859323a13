package clientstest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

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
	"github.com/hashicorp/go-retryablehttp"
	"github.com/imroc/req/v3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stripe/stripe-go/v85"
	"google.golang.org/api/option"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The SDKs over a Transport, with their own retries switched off. docs/sdks.md shows the
// body of each function.

func newAWS(cfg aws.Config, httpClient *http.Client) *s3.Client {
	cfg.HTTPClient = httpClient
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return s3.NewFromConfig(cfg)
}

func newAzure(account string, credential azcore.TokenCredential, httpClient *http.Client) (*azblob.Client, error) {
	return azblob.NewClient(account, credential, &azblob.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: httpClient,
		Retry:     policy.RetryOptions{MaxRetries: -1}, // 0 is the default, which is 3
	}})
}

func newGoogle(ctx context.Context, httpClient *http.Client) (*storage.Client, error) {
	client, err := storage.NewClient(ctx, option.WithHTTPClient(httpClient))
	if err != nil {
		return nil, err
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return client, nil
}

func newStripe(key string, httpClient *http.Client) *stripe.Client {
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        httpClient,
		MaxNetworkRetries: stripe.Int64(0), // nil is the default, which is 2
	})))
}

//nolint:unparam // a reader of the page has another key
func newOpenAI(key string, httpClient *http.Client) openai.Client {
	return openai.NewClient(
		openaioption.WithAPIKey(key),
		openaioption.WithHTTPClient(httpClient),
		openaioption.WithMaxRetries(0),
	)
}

func newAnthropic(key string, httpClient *http.Client) anthropic.Client {
	return anthropic.NewClient(
		anthropicoption.WithAPIKey(key),
		anthropicoption.WithHTTPClient(httpClient),
		anthropicoption.WithMaxRetries(0),
	)
}

//nolint:unparam // a reader of the page has another token
func newGitHub(token string, httpClient *http.Client) (*github.Client, error) {
	return github.NewClient(github.WithHTTPClient(httpClient), github.WithAuthToken(token))
}

func newMinIO(id, secret string, httpClient *http.Client) (*minio.Client, error) {
	return minio.New("play.min.io", &minio.Options{
		Creds:      credentials.NewStaticV4(id, secret, ""),
		Region:     "us-east-1",
		Secure:     true,
		Transport:  httpClient.Transport,
		MaxRetries: 1, // counts attempts; 0 is the default, which is 10
	})
}

func newElasticsearch(address string, httpClient *http.Client) (*elasticsearch.Client, error) {
	return elasticsearch.New(
		elasticsearch.WithAddresses(address),
		elasticsearch.WithTransportOptions(
			elastictransport.WithTransport(httpClient.Transport),
			elastictransport.WithDisableRetry(),
		),
	)
}

func newResty(httpClient *http.Client) *resty.Client {
	return resty.NewWithClient(httpClient).SetRetryCount(0) // the default
}

func newReq(policy *retry.Policy) *req.Client {
	client := req.C() // its own retries are off by default
	client.GetTransport().WrapRoundTripFunc(func(base http.RoundTripper) req.HttpRoundTripFunc {
		return (&retryhttp.Transport{Base: base, Policy: policy}).RoundTrip
	})
	return client
}

func newRetryable(httpClient *http.Client) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = httpClient
	client.RetryMax = 0
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler // or a 503 is an error without a response
	return client
}

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	httpClient := &http.Client{Transport: &retryhttp.Transport{}}
	resp, err := newResty(httpClient).R().Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Status(), "after", retryhttp.Attempts(resp.RawResponse), "attempts")
	// Output: 503 Service Unavailable after 3 attempts
}

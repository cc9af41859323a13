package clientstest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/elastic/go-elasticsearch/v9/esapi"
	"github.com/go-resty/resty/v2"
	"github.com/google/go-github/v92/github"
	"github.com/imroc/req/v3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

const ms = time.Millisecond

// client is an API client of somebody else's.
type client struct {
	name string
	// read makes an idempotent request and returns what it got.
	read func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error)
	// write makes a POST and returns what it got.
	write func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error)
	// found and written answer them, with the result "hello".
	found, written step
	// failed is how the service reports an error.
	failed func(status int, keysAndValues ...string) step
	// reported returns what the client's own error type says.
	reported func(t *testing.T, err error) (status int, message string)
}

var clients = []client{
	{
		name: "go-github",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			repo, _, err := githubClient(t, h, url).Repositories.Get(ctx, "octo", "cat")
			return repo.GetName(), err
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			issue, _, err := githubClient(t, h, url).Issues.Create(ctx, "octo", "cat", github.CreateIssueRequest{Title: "a <title>"})
			return issue.GetTitle(), err
		},
		found:   answer(200, "application/json", `{"name": "hello"}`),
		written: answer(201, "application/json", `{"title": "hello"}`),
		failed: func(status int, keysAndValues ...string) step {
			return answer(status, "application/json", `{"message": "no luck"}`, keysAndValues...)
		},
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			var e *github.ErrorResponse
			require.ErrorAs(t, err, &e)
			return e.Response.StatusCode, e.Message
		},
	},
	{
		name: "minio-go",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			object, err := minioClient(t, h.Transport, url).GetObject(ctx, "bucket", "key", minio.GetObjectOptions{})
			require.NoError(t, err, "there is no request before the first Read")
			defer func() { _ = object.Close() }()
			content, err := io.ReadAll(object)
			return string(content), err
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			core := minio.Core{Client: minioClient(t, h.Transport, url)}
			return core.NewMultipartUpload(ctx, "bucket", "key", minio.PutObjectOptions{})
		},
		found:   s3Object("hello"),
		written: s3Upload,
		failed:  s3Failed,
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := minio.ToErrorResponse(err)
			return e.StatusCode, e.Message
		},
	},
	{
		name: "aws-sdk-go",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			out, err := awsClient(h, url).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
			if err != nil {
				return "", err
			}
			defer out.Body.Close()
			content, err := io.ReadAll(out.Body)
			return string(content), err
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			out, err := awsClient(h, url).CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
			if err != nil {
				return "", err
			}
			return aws.ToString(out.UploadId), nil
		},
		found:   s3Object("hello"),
		written: s3Upload,
		failed:  s3Failed,
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			var e smithy.APIError
			require.ErrorAs(t, err, &e)
			var response *awshttp.ResponseError
			require.ErrorAs(t, err, &response)
			return response.HTTPStatusCode(), e.ErrorMessage()
		},
	},
	{
		name: "openai-go",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c := openaiClient(h, url)
			model, err := c.Models.Get(ctx, "gpt")
			if err != nil {
				return "", err
			}
			return model.ID, nil
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c := openaiClient(h, url)
			completion, err := c.Chat.Completions.New(ctx, question)
			if err != nil {
				return "", err
			}
			return completion.Choices[0].Message.Content, nil
		},
		found:   answer(200, "application/json", `{"id": "hello", "object": "model"}`),
		written: completed,
		failed: func(status int, keysAndValues ...string) step {
			return answer(status, "application/json", `{"error": {"message": "no luck", "type": "server_error"}}`, keysAndValues...)
		},
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			return e.StatusCode, e.Message
		},
	},
	{
		name: "anthropic-sdk-go",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c := anthropicClient(h, url)
			model, err := c.Models.Get(ctx, "claude", anthropic.ModelGetParams{})
			if err != nil {
				return "", err
			}
			return model.ID, nil
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c := anthropicClient(h, url)
			message, err := c.Messages.New(ctx, message)
			if err != nil {
				return "", err
			}
			return message.Content[0].Text, nil
		},
		found:   answer(200, "application/json", `{"id": "hello", "type": "model"}`),
		written: answer(200, "application/json", `{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hello"}]}`),
		failed: func(status int, keysAndValues ...string) step {
			return answer(status, "application/json", `{"type": "error", "error": {"type": "api_error", "message": "no luck"}}`, keysAndValues...)
		},
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			var e *anthropic.Error
			require.ErrorAs(t, err, &e)
			if e.Type() != "api_error" {
				return e.StatusCode, e.RawJSON()
			}
			return e.StatusCode, "no luck" // the type is as far as the client reads
		},
	},
	{
		name: "go-elasticsearch",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c, err := newElasticsearch(url, h)
			require.NoError(t, err)
			return elasticAnswer(c.Get("index", "id", c.Get.WithContext(ctx)))
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			c, err := newElasticsearch(url, h)
			require.NoError(t, err)
			return elasticAnswer(c.Index("index", strings.NewReader(`{"text": "<b>"}`), c.Index.WithContext(ctx)))
		},
		found:    answer(200, "application/json", `{"_id": "hello", "found": true}`, "X-Elastic-Product", "Elasticsearch"),
		written:  answer(201, "application/json", `{"_id": "hello", "result": "created"}`, "X-Elastic-Product", "Elasticsearch"),
		failed:   plainFailed,
		reported: reportedPlain,
	},
	{
		name: "resty",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			return restyAnswer(newResty(h).R().SetContext(ctx).Get(url))
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			return restyAnswer(newResty(h).R().SetContext(ctx).SetBody(map[string]string{"text": "<b>"}).Post(url))
		},
		found:    answer(200, "application/json", `{"_id": "hello"}`),
		written:  answer(201, "application/json", `{"_id": "hello"}`),
		failed:   plainFailed,
		reported: reportedPlain,
	},
	{
		name: "req",
		read: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			return reqAnswer(reqClient(t, h).R().SetContext(ctx).Get(url))
		},
		write: func(ctx context.Context, t *testing.T, h *http.Client, url string) (string, error) {
			t.Helper()
			return reqAnswer(reqClient(t, h).R().SetContext(ctx).SetBody(map[string]string{"text": "<b>"}).Post(url))
		},
		found:    answer(200, "application/json", `{"_id": "hello"}`),
		written:  answer(201, "application/json", `{"_id": "hello"}`),
		failed:   plainFailed,
		reported: reportedPlain,
	},
}

// plainError is the failure of a client that has no error for a status of 400 or more.
type plainError struct {
	status  int
	message string
}

func (e plainError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.message) }

func plainFailed(status int, keysAndValues ...string) step {
	return answer(status, "application/json", `{"error": {"reason": "no luck"}}`, keysAndValues...)
}

func reportedPlain(t *testing.T, err error) (int, string) {
	t.Helper()
	var e plainError
	require.ErrorAs(t, err, &e)
	return e.status, e.message
}

// plainAnswer returns what such a client got.
func plainAnswer(status int, body []byte) (string, error) {
	var got struct {
		ID    string `json:"_id"`
		Error struct{ Reason string }
	}
	if err := json.Unmarshal(body, &got); err != nil && status < 400 {
		return "", err
	}
	if status >= 400 {
		return "", plainError{status, got.Error.Reason}
	}
	return got.ID, nil
}

func elasticAnswer(resp *esapi.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode, body)
}

func restyAnswer(resp *resty.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode(), resp.Body())
}

func reqAnswer(resp *req.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode, resp.Bytes())
}

// The clients, as their documentation makes them.

func githubClient(t *testing.T, h *http.Client, url string) *github.Client {
	t.Helper()
	url += "/"
	c, err := github.NewClient(github.WithHTTPClient(h), github.WithAuthToken("token"), github.WithURLs(&url, &url))
	require.NoError(t, err)
	return c
}

func minioClient(t *testing.T, transport http.RoundTripper, url string) *minio.Client {
	t.Helper()
	c, err := minio.New(host(t, url), &minio.Options{
		Creds:      credentials.NewStaticV4("id", "secret", ""),
		Region:     "us-east-1", // or it asks for it
		Secure:     secure(url),
		Transport:  transport,
		MaxRetries: 1,
	})
	require.NoError(t, err)
	return c
}

func awsClient(h *http.Client, url string, options ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
		Region:       "us-east-1",
		BaseEndpoint: aws.String(url),
		UsePathStyle: true,
		HTTPClient:   h,
		Retryer:      aws.NopRetryer{},
	}, options...)
}

func openaiClient(h *http.Client, url string) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(url), openaioption.WithAPIKey("key"),
		openaioption.WithHTTPClient(h), openaioption.WithMaxRetries(0))
}

func anthropicClient(h *http.Client, url string) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(url),
		anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(h), anthropicoption.WithMaxRetries(0))
}

var question = openai.ChatCompletionNewParams{
	Model:    "gpt",
	Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi?")},
}

var completed = answer(200, "application/json",
	`{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]}`)

var message = anthropic.MessageNewParams{
	Model:     "claude",
	MaxTokens: 10,
	Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi?"))},
}

// world is what the clients of one test share: a Transport and its time.
type world struct {
	http  *http.Client
	clock *retrytest.Clock
}

// newWorld returns a client whose waits cost nothing, and without jitter are
// 200ms, 400ms, …, but for those that a server asked for. It is changed by the
// options.
func newWorld(t *testing.T, options ...func(*retry.Policy)) world {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return newWorldOver(base, options...)
}

func newWorldOver(base http.RoundTripper, options ...func(*retry.Policy)) world {
	clock := &retrytest.Clock{}
	policy := retryhttp.DefaultPolicy()
	policy.Clock, policy.Jitter = clock, retry.NoJitter
	for _, option := range options {
		option(policy)
	}
	return world{&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy}}, clock}
}

// hinted asserts that the only wait was the one that the server asked for: no
// shorter, and at most a tenth longer.
func (w world) hinted(t *testing.T, asked time.Duration) {
	t.Helper()
	require.Len(t, w.clock.Sleeps(), 1)
	slept := w.clock.Sleeps()[0]
	if slept < asked || slept > asked+asked/10 {
		t.Errorf("the server asked for %v, the wait was %v", asked, slept)
	}
}

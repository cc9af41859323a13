package clientstest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/smtp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/elastic/go-elasticsearch/v9/esutil"
	gosmtp "github.com/emersion/go-smtp"
	"github.com/google/go-github/v92/github"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/wneessen/go-mail"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A search is a POST, and a header says that it may be repeated.
func TestElasticsearchSearch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header map[string]string
		steps  []step
		status int
	}{
		"as it is":    {nil, []step{plainFailed(503)}, 503},
		"with a key":  {map[string]string{"Idempotency-Key": "search"}, []step{plainFailed(503), foundNothing}, 200},
		"rate limits": {nil, []step{plainFailed(429), foundNothing}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.steps...)
			client := must(newElasticsearch("https://example.com", newWorld(t, s).http))
			resp := testkit.Must(client.Search(
				client.Search.WithContext(t.Context()), client.Search.WithIndex("index"),
				client.Search.WithBody(strings.NewReader(`{"size": 1}`)), client.Search.WithHeader(tt.header),
			))(t)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, "POST", s.got()[0].Method)
			s.assertSame(t)
		})
	}
}

// The body of such a reader has a Seek, inside the NopCloser of net/http.
func TestElasticsearchJSONReader(t *testing.T) {
	t.Parallel()
	s := serve(t, plainFailed(429), answer(201, "application/json", `{}`, "X-Elastic-Product", "Elasticsearch"))
	client := must(newElasticsearch("https://example.com", newWorld(t, s).http))
	body := esutil.NewJSONReader(map[string]string{"text": "hello"})
	_, err := elasticAnswer(client.Index("index", body, client.Index.WithContext(t.Context())))
	assert.NoError(t, err)
	s.assertSame(t)
}

var foundNothing = answer(200, "application/json", `{"hits": {"hits": []}}`, "X-Elastic-Product", "Elasticsearch")

// limited answers as GitHub does when no request is left until a time from now.
func limited(status int, wait time.Duration) step {
	now := time.Now().UTC()
	return answer(status, "application/json", `{"message": "API rate limit exceeded"}`,
		"Date", now.Format(http.TimeFormat),
		"X-Ratelimit-Limit", "60", "X-Ratelimit-Remaining", "0",
		"X-Ratelimit-Reset", strconv.FormatInt(now.Add(wait).Unix(), 10))
}

var secondary = answer(403, "application/json",
	`{"message": "slow down", "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`,
	"Retry-After", "30", "X-Ratelimit-Remaining", "59")

// A limit that passes soon is waited for, and the client does not see it.
//
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
func TestGitHubLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit step
		wait  time.Duration
	}{
		"primary":          {limited(403, 40*time.Second), 40 * time.Second},
		"primary, as 429":  {limited(429, 40*time.Second), 40 * time.Second},
		"secondary, a 403": {secondary, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.limit,
				answer(200, "application/json", `{"name": "hello"}`, "X-Ratelimit-Limit", "60", "X-Ratelimit-Remaining", "59"))
			w := newWorld(t, s)

			repo, response, err := must(newGitHub("token", w.http)).Repositories.Get(t.Context(), "octo", "cat")

			require.NoError(t, err)
			assert.Equal(t, "hello", repo.GetName())
			assert.Equal(t, 59, response.Rate.Remaining, "the client must not see the limit")
			w.hinted(t, tt.wait)
		})
	}
}

func TestGitHubPrimaryLimitThatIsTooFarAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, limited(403, 40*time.Minute)))
	c := must(newGitHub("token", w.http))

	_, _, err := c.Repositories.Get(t.Context(), "octo", "cat")

	limit := testkit.As[*github.RateLimitError](t, err)
	assert.Equal(t, 60, limit.Rate.Limit)
	assert.WithinDuration(t, time.Now().Add(40*time.Minute), limit.Rate.Reset.Time, time.Minute)
	assert.Empty(t, w.clock.Sleeps())

	_, _, err = c.Repositories.Get(t.Context(), "octo", "cat")

	require.ErrorAs(t, err, &limit, "the client knows the limit, and sends nothing")
}

func TestGitHubSecondaryLimitThatStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, secondary, secondary, secondary))

	_, _, err := must(newGitHub("token", w.http)).Repositories.Get(t.Context(), "octo", "cat")

	abuse := testkit.As[*github.AbuseRateLimitError](t, err)
	assert.Equal(t, 30*time.Second, abuse.GetRetryAfter())
	assert.Len(t, w.clock.Sleeps(), 2)
}

// http.Client makes the second request, and its GetBody, itself.
func TestGitHubRedirectKeepsTheBody(t *testing.T) {
	t.Parallel()
	s := serve(t,
		answer(307, "application/json", `{}`, "Location", "/repositories/1/issues"),
		answer(429, "application/json", `{}`, "Retry-After", "2"),
		clients["go-github"].written)
	w := newWorld(t, s)

	title := testkit.Must(clients["go-github"].off(t, w.http).write(t.Context()))(t)
	assert.Equal(t, "hello", title)
	w.hinted(t, 2*time.Second)
	for _, r := range s.got() {
		assert.JSONEq(t, `{"title": "a <title>"}`, r.Body)
		assert.Equal(t, "Bearer token", r.Header.Get("Authorization"))
	}
	assert.Equal(t, "/repositories/1/issues", s.got()[2].URI)
}

// go-github hides that the file can seek, but gives its request a GetBody.
func TestGitHubAsset(t *testing.T) {
	t.Parallel()
	s := serve(t,
		answer(429, "application/json", `{"message": "no luck"}`, "Retry-After", "2"),
		answer(201, "application/json", `{"name": "hello"}`))
	w := newWorld(t, s)

	asset, _, err := must(newGitHub("token", w.http)).Repositories.UploadReleaseAsset(t.Context(), "octo", "cat", 1,
		&github.UploadOptions{Name: "asset.zip"}, largeFile(t))

	require.NoError(t, err)
	assert.Equal(t, "hello", asset.GetName())
	w.hinted(t, 2*time.Second)
	assert.True(t, string(large) == s.got()[0].Body, "the body")
	s.assertSame(t)
}

var overloaded = answer(529, "application/json", `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`)

// The headers that say when there is quota again are followed, and the clients do not know.
func TestHintsOfModels(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	in := func(wait time.Duration) string { return now.Add(wait).Format(time.RFC3339) }
	for name, tt := range map[string]struct {
		client string
		header []string
		want   time.Duration
	}{
		"milliseconds": {"openai-go", []string{"Retry-After-Ms", "1234", "Retry-After", "20"}, 1234 * ms},
		"OpenAI": {"openai-go", []string{
			"X-Ratelimit-Remaining-Requests", "10", "X-Ratelimit-Reset-Requests", "50s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6.5s",
		}, 6500 * ms},
		"Anthropic": {"anthropic-sdk-go", []string{
			"Date", "Fri, 20 Nov 2026 10:00:00 GMT",
			"Anthropic-Ratelimit-Requests-Remaining", "10", "Anthropic-Ratelimit-Requests-Reset", in(50 * time.Second),
			"Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", in(7 * time.Second),
		}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clients[tt.client]
			s := serve(t, c.failed(429, tt.header...), c.written)
			w := newWorld(t, s)

			assert.Equal(t, "hello", testkit.Must(c.off(t, w.http).write(t.Context()))(t))
			w.hinted(t, tt.want)
			assert.Equal(t, "0", s.got()[1].Header.Get("X-Stainless-Retry-Count"), "the client does not know")
			s.assertSame(t)
		})
	}
}

// With a key the server can tell a second request, so a POST that may have had an
// effect is sent again, with the same key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		failure step
		ask     func(t *testing.T, w world) error
	}{
		"openai-go": {reset, func(t *testing.T, w world) error {
			t.Helper()
			c := newOpenAI("key", w.http)
			_, err := c.Chat.Completions.New(t.Context(), question, openaioption.WithHeader("Idempotency-Key", "a key"))
			return err
		}},
		"anthropic-sdk-go": {overloaded, func(t *testing.T, w world) error {
			t.Helper()
			c := newAnthropic("key", w.http)
			_, err := c.Messages.New(t.Context(), message, anthropicoption.WithHeader("Idempotency-Key", "a key"))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.failure, clients[name].failed(500), clients[name].written)
			w := newWorld(t, s)
			require.NoError(t, tt.ask(t, w))
			assert.Len(t, w.clock.Sleeps(), 2)
			assert.Equal(t, "a key", s.got()[0].Header.Get("Idempotency-Key"))
			s.assertSame(t)
		})
	}
}

// Without a key, an overloaded model is not asked twice: nothing says that it has
// not begun.
func TestAnthropicOverloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, overloaded))

	_, err := clients["anthropic-sdk-go"].off(t, w.http).write(t.Context())

	e := testkit.As[*anthropic.Error](t, err)
	assert.Equal(t, 529, e.StatusCode)
	assert.Equal(t, "overloaded_error", string(e.Type()))
	assert.Empty(t, w.clock.Sleeps())
}

// The request timeout of the client is the deadline of all attempts together: a
// wait that would go past it is not begun, and the client gets the response.
func TestRequestTimeoutOfTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, clients["openai-go"].failed(429, "Retry-After", "50")))
	w.clock.Advance(time.Since(w.clock.Now())) // the client's deadline is on the system's clock
	c := newOpenAI("key", w.http)

	_, err := c.Chat.Completions.New(t.Context(), question, openaioption.WithRequestTimeout(30*time.Second))

	e := testkit.As[*openai.Error](t, err)
	assert.Equal(t, 429, e.StatusCode)
	assert.Empty(t, w.clock.Sleeps())
}

// serveMail starts a mail server that answers the first command that begins with a word with
// a reply, and returns its address.
func serveMail(t *testing.T, command string, reply int) string {
	t.Helper()
	return provoke.Serve(t, func(conn net.Conn) {
		_, _ = fmt.Fprint(conn, "220 mail.example ESMTP\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), command) {
				_, _ = fmt.Fprintf(conn, "%d 5.1.1 no\r\n", reply)
			} else {
				_, _ = fmt.Fprint(conn, "250 ok\r\n")
			}
		}
	}).Addr
}

// TestMailServers checks that the replies of a server reach retry.Classify through the clients
// for SMTP: 4yz is for now, 5yz for good.
func TestMailServers(t *testing.T) {
	t.Parallel()
	message := func(t *testing.T) *mail.Msg {
		t.Helper()
		m := mail.NewMsg()
		require.NoError(t, m.From("from@example.com"))
		require.NoError(t, m.To("to@example.com"))
		m.SetBodyString(mail.TypeTextPlain, "hello")
		return m
	}
	for name, send := range map[string]func(t *testing.T, addr string) error{
		"net/smtp": func(_ *testing.T, addr string) error {
			return smtp.SendMail(addr, nil, "from@example.com", []string{"to@example.com"}, []byte("hello\r\n"))
		},
		"go-smtp": func(_ *testing.T, addr string) error {
			c, err := gosmtp.Dial(addr)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			return c.SendMail("from@example.com", []string{"to@example.com"}, strings.NewReader("hello\r\n"))
		},
		"go-mail": func(t *testing.T, addr string) error {
			t.Helper()
			tcp := testkit.Must(net.ResolveTCPAddr("tcp", addr))(t)
			c := testkit.Must(mail.NewClient(tcp.IP.String(), mail.WithPort(tcp.Port), mail.WithTLSPolicy(mail.NoTLS)))(t)
			return c.DialAndSend(message(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for reply, class := range map[int]retry.Class{421: retry.Retryable, 450: retry.Retryable, 550: retry.Final, 554: retry.Final} {
				for _, command := range []string{"MAIL", "RCPT"} {
					err := send(t, serveMail(t, command, reply))
					require.Error(t, err)
					v := retry.Classify(err)
					assert.Equal(t, class, v.Class, "%s %d: %v", command, reply, err)
					assert.Equal(t, fmt.Sprintf("reply_%d", reply), v.Category, "%s: %v", command, err)
				}
			}
		})
	}
}

// A Transport over the transport of oauth2 retries when the token endpoint is down. No
// request was sent then, so that a POST is repeated too.
func TestOAuth2TokenEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statuses []int // of the token endpoint
		requests int   // that come through
	}{
		"down for a moment": {[]int{503, 429, 200}, 1},
		"down":              {[]int{503, 502, 500}, 0},
		"refused":           {[]int{401}, 0},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var steps []step
				for _, status := range test.statuses {
					steps = append(steps, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(status)
						_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer"}`)
					})
				}
				tokens := serve(t, steps...)
				var served []step
				for range test.requests {
					served = append(served, func(w http.ResponseWriter, r *http.Request) {
						assert.Equal(t, "Bearer t", r.Header.Get("Authorization"))
						w.WriteHeader(http.StatusNoContent)
					})
				}
				api := serve(t, served...)
				config := clientcredentials.Config{
					ClientID: "id", ClientSecret: "s", TokenURL: tokens.URL, AuthStyle: oauth2.AuthStyleInParams,
				}
				client := &http.Client{Transport: &retryhttp.Transport{
					Base:   &oauth2.Transport{Source: config.TokenSource(context.WithoutCancel(t.Context()))},
					Policy: &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
					Budget: retryhttp.NoBudget,
				}}
				req := testkit.Must(http.NewRequestWithContext(t.Context(), method, api.URL, strings.NewReader("hello")))(t)
				resp, err := client.Do(req)
				if test.requests == 0 {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
			})
		}
	}
}

// s3Object answers with an object.
func s3Object(content string) step {
	return answer(200, "text/plain", content,
		"Etag", `"0123456789abcdef0123456789abcdef"`, "Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
}

var s3Upload = answer(200, "application/xml",
	`<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>key</Key><UploadId>hello</UploadId></InitiateMultipartUploadResult>`)

func s3Failed(status int, keysAndValues ...string) step {
	code := map[int]string{
		http.StatusForbidden:           "AccessDenied",
		http.StatusNotFound:            "NoSuchKey",
		http.StatusTooManyRequests:     "TooManyRequests",
		http.StatusInternalServerError: "InternalError",
		http.StatusServiceUnavailable:  "SlowDown",
	}[status]
	if code == "" {
		code = "Unexpected"
	}
	return answer(status, "application/xml",
		`<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>no luck</Message></Error>`, keysAndValues...)
}

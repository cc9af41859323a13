package clientstest_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-github/v92/github"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

	var limit *github.RateLimitError
	require.ErrorAs(t, err, &limit)
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

	var abuse *github.AbuseRateLimitError
	require.ErrorAs(t, err, &abuse)
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

	title, err := clients["go-github"].off(t, w.http).write(t.Context())

	require.NoError(t, err)
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

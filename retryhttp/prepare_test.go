package retryhttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// What Prepare adds goes to the server that the caller has named, and to no other one.
func TestPrepareOfRedirects(t *testing.T) {
	t.Parallel()
	for hops, signed := range map[string]string{ // of each hop
		"http://a/1 http://a/2 http://A:80/3": "yes,yes,yes",
		"http://a/1 https://a/2 http://a/3":   "yes,yes,no",
		"http://a/1 http://b/2 http://a/3":    "yes,no,no", // b has chosen the way back
		"http://a/1 http://sub.a/2":           "yes,no",
		"http://a/1 http://a:81/2":            "yes,no",
		"https://a/1 http://a/2":              "yes,no",
		"http://a:1/1 https://a:2/2":          "yes,no",
		"http://[::1]/1 http://[::1%25a]/2":   "yes,no",
	} {
		for _, do := range []bool{false, true} {
			urls, seen := strings.Fields(hops), []string(nil)
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				assert.Equal(t, urls[len(seen)], req.URL.String())
				seen = append(seen, "no")
				if req.Header.Get("X-Signature") == req.URL.Path {
					seen[len(seen)-1] = "yes"
				} else {
					assert.Empty(t, req.Header.Get("X-Signature"), "of another request")
				}
				resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
				if len(urls) > 2 { // some set it, some do not
					resp.Request = req
				}
				if len(seen) < len(urls) {
					resp.StatusCode, resp.Header = http.StatusFound, headers("Location", urls[len(seen)])
				}
				return resp, nil
			})
			sign := func(req *http.Request) error { req.Header.Set("X-Signature", req.URL.Path); return nil }
			client := &http.Client{Transport: &retryhttp.Transport{Base: base, Prepare: sign, Policy: atOnce(1)}}
			req := request(t, http.MethodGet, urls[0], nil)
			if do {
				require.NoError(t, retryhttp.Do(client, nil, req, func(*http.Response) error { return nil }), hops)
			} else {
				resp, err := client.Do(req)
				require.NoError(t, err, hops)
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, signed, strings.Join(seen, ","), "%s, Do: %v", hops, do)
			assert.Empty(t, req.Header)
		}
	}
}

// A redirect that cannot be prepared was sent before, so it is not certain that nothing happened.
func TestPrepareOfARedirectFails(t *testing.T) {
	t.Parallel()
	for path, attempts := range map[string]int{"/first": 3, "/second": 1} {
		n := 0
		client := &http.Client{Transport: &retryhttp.Transport{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: http.StatusTemporaryRedirect, Header: headers("Location", "/second"), Body: http.NoBody, Request: req,
				}, nil
			}),
			Policy: atOnce(3), Budget: retryhttp.NoBudget,
			Prepare: func(req *http.Request) error {
				if req.URL.Path != path {
					return nil
				}
				n++
				return context.DeadlineExceeded
			},
		}}
		err := retryhttp.Do(client, nil, request(t, http.MethodPost, "http://a/first", nil), func(*http.Response) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, attempts, n, path)
	}
}

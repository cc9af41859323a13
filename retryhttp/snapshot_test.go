package retryhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A RoundTripper must not change the request that it gets. One that does changes the
// caller's, as it would without a Transport, and spoils no retry.
func TestRequestIsRestored(t *testing.T) {
	t.Parallel()
	spoilers := map[string]func(*http.Request){
		"nothing":        func(*http.Request) {},
		"a field":        func(req *http.Request) { req.Header.Set("A", "9") },
		"a value":        func(req *http.Request) { req.Header["A"][0] = "9" },
		"another value":  func(req *http.Request) { req.Header.Add("A", "9") },
		"a field more":   func(req *http.Request) { req.Header.Set("Z", "9") },
		"a field less":   func(req *http.Request) { req.Header.Del("A") },
		"an empty field": func(req *http.Request) { req.Header["Nil"] = []string{} },
		"no header":      func(req *http.Request) { req.Header = nil },
		"the URL":        func(req *http.Request) { req.URL.Path = "/9" },
		"another URL":    func(req *http.Request) { req.URL = &url.URL{Scheme: "http", Host: "9"} },
		"no URL":         func(req *http.Request) { req.URL = nil },
		"the host":       func(req *http.Request) { req.Host = "9" },
		"the method":     func(req *http.Request) { req.Method = http.MethodDelete },
		"the length":     func(req *http.Request) { req.ContentLength = 9 },
	}
	for name, spoil := range spoilers {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var seen []string
				base := roundTripper(func(req *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(req.Body)
					assert.NoError(t, err)
					seen = append(seen, fmt.Sprintf("%s %v %s %v %d %s", req.Method, req.URL, req.Host, req.Header, req.ContentLength, body))
					spoil(req)
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
				})
				req := request(t, method, "http://a/b?c", strings.NewReader("hello"), "A", "1", "A", "2", "B", "3")
				req.Header["Nil"] = nil
				if method == http.MethodGet {
					req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
				}
				transport := &retryhttp.Transport{Base: base, Policy: atOnce(4), Budget: retryhttp.NoBudget}
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Len(t, seen, 4)
				for _, attempt := range seen {
					assert.Equal(t, seen[0], attempt)
				}
			})
		}
	}
}

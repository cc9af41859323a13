package retryhttp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The first header field is encoded before the server could act on any part of
// the request. The retry of a POST relies on it.
func TestNothingIsSentBeforeTheFirstField(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 10_000)
	for _, test := range []struct {
		name   string
		change func(*http.Request)
	}{
		{"short", func(*http.Request) {}},
		{"long field", func(req *http.Request) { req.Header.Set("X", big) }},
		{"long URL", func(req *http.Request) { req.URL.RawQuery = big }},
	} {
		for version, set := range map[string]func(*testing.T) (*http.Transport, string){"HTTP/1": toOK, "HTTP/2": toH2(provoke.OKEach)} {
			t.Run(version+", "+test.name, func(t *testing.T) {
				t.Parallel()
				var encoded atomic.Bool
				var requests atomic.Int64
				base, url := set(t)
				provoke.Hook(t, base, func(c *provoke.Conn) {
					var sent []byte
					c.BeforeWrite = func(p []byte) {
						sent = append(sent, p...)
						if hasRequest(sent) {
							requests.Add(1)
							assert.True(t, encoded.Load())
						}
					}
				})
				req := request(t, http.MethodPost, url, strings.NewReader("hello"))
				test.change(req)
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					WroteHeaderField: func(string, []string) { encoded.Store(true) },
				}))
				resp := testkit.Must(base.RoundTrip(req))(t)
				require.NoError(t, resp.Body.Close())
				assert.NotZero(t, requests.Load())
			})
		}
	}
}

// hasRequest reports whether there is enough for a server to see a request: the
// whole header of HTTP/1, or the beginning of a header of HTTP/2.
func hasRequest(sent []byte) bool {
	frames, ok := bytes.CutPrefix(sent, []byte(provoke.HTTP2Preface))
	if !ok {
		return bytes.Contains(sent, []byte("\r\n\r\n")) && !bytes.HasPrefix(sent, []byte("PRI"))
	}
	for len(frames) >= 9 {
		if frames[3] == provoke.FrameHeaders {
			return true
		}
		length := int(binary.BigEndian.Uint32(frames) >> 8)
		frames = frames[min(len(frames), 9+length):]
	}
	return false
}

// A transport that does not use httptrace proves nothing. Its error may wrap itself.
func TestTransportThatDoesNotTell(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{syscall.ECONNRESET, &endlessError{}} {
		for method, want := range map[string]int{http.MethodGet: 2, http.MethodPost: 1} {
			requests := 0
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				requests++
				return nil, failure
			})
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget}
			_, err := transport.RoundTrip(request(t, method, "http://127.0.0.1", nil))
			require.ErrorContains(t, err, failure.Error())
			assert.Equal(t, want, requests, "%s, %T", method, failure)
		}
	}
}

// The error of a hook of an http.Transport is unknown; but there was no connection yet,
// so even a POST may be repeated.
func TestHooksThatFail(t *testing.T) {
	t.Parallel()
	errTunnel := errors.New("the tunnel is not up")
	hooks := map[string]func(*http.Transport, func() error){
		"DialContext": func(base *http.Transport, fail func() error) {
			base.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, fail() }
		},
		"Proxy": func(base *http.Transport, fail func() error) {
			base.Proxy = func(*http.Request) (*url.URL, error) { return nil, fail() }
		},
	}
	for name, set := range hooks {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				base := &http.Transport{}
				set(base, func() error {
					calls.Add(1)
					return errTunnel
				})
				var events retrytest.Recorder
				p := atOnce(3)
				p.Observer = events.Observer()
				_, err := client(t, base, p).Do(request(t, method, "http://127.0.0.1:1", strings.NewReader("hello")))
				require.ErrorIs(t, err, errTunnel)
				require.ErrorIs(t, err, retry.StopAttempts)
				assert.EqualValues(t, 3, calls.Load())
				want := retry.Verdict{Class: retry.Retryable, Category: "conn"} // the request is not watched
				if method == http.MethodPost {
					want = retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "unsent"}
				}
				assert.Equal(t, want, events.Events()[0].Verdict)
			})
		}
	}
}

// An unknown error of the connection itself comes after something was sent.
func TestConnectionsThatFailOddly(t *testing.T) {
	t.Parallel()
	errOdd := errors.New("odd")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := serve(t, hang)
			base := provoke.Hook(t, &http.Transport{}, func(c *provoke.Conn) {
				var once sync.Once
				written := make(chan struct{})
				c.AfterWrite = func() { once.Do(func() { close(written) }) }
				c.BeforeRead = func() error {
					<-written
					return errOdd
				}
			})
			_, err := client(t, base, atOnce(3)).Do(request(t, method, s.URL, nil))
			require.ErrorIs(t, err, errOdd)
			assert.Equal(t, method == http.MethodGet, errors.Is(err, retry.StopAttempts))
		})
	}
}

// Bytes written in an attempt do not count in the next, and do in the same one, whatever
// connection it asks for later.
func TestEachAttemptTellsForItself(t *testing.T) {
	t.Parallel()
	requests := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		requests++
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("a:80")
		if requests == 1 {
			trace.WroteHeaderField("Host", []string{"a"})
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, nil
		}
		if requests == 3 {
			trace.WroteHeaderField("Host", []string{"a"})
			trace.GetConn("b:80")
		}
		return nil, syscall.ECONNRESET
	})
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(9), Budget: retryhttp.NoBudget}
	_, err := transport.RoundTrip(request(t, http.MethodPost, "http://127.0.0.1", nil))
	require.Error(t, err)
	assert.Equal(t, 3, requests)
}

// net/http marks requests with an empty list, which sends no header.
func TestIdempotencyKeyWithoutValue(t *testing.T) {
	t.Parallel()
	s := serve(t, status(500), status(200))
	req := request(t, http.MethodPost, s.URL, nil)
	req.Header["Idempotency-Key"] = []string{}
	resp := testkit.Must(client(t, nil, atOnce(2)).Do(req))(t)
	assert.Equal(t, "status 200", text(t, resp))
}

func TestIdempotencyKeyOption(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]string{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Method+r.URL.Path] = append(keys[r.Method+r.URL.Path], r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusInternalServerError)
	})
	c := client(t, nil, atOnce(3))
	transport := c.Transport.(*retryhttp.Transport)
	transport.IdempotencyKey = retryhttp.RandomKey
	send := func(method, path string, header ...string) {
		req := request(t, method, s.URL+path, strings.NewReader("hello"), header...)
		before := len(req.Header)
		resp := testkit.Must(c.Do(req))(t)
		require.NoError(t, resp.Body.Close())
		assert.Len(t, req.Header, before, "the caller's request stays as it is")
	}
	send("POST", "/1")
	send("POST", "/2")
	send("POST", "/own", "Idempotency-Key", "mine")
	send("PUT", "/")
	for _, path := range []string{"POST/1", "POST/2"} {
		require.Len(t, keys[path], 3)
		assert.GreaterOrEqual(t, len(keys[path][0]), 26)
		assert.Equal(t, keys[path][0], keys[path][1])
		assert.Equal(t, keys[path][0], keys[path][2])
	}
	assert.NotEqual(t, keys["POST/1"][0], keys["POST/2"][0])
	assert.Equal(t, []string{"mine", "mine", "mine"}, keys["POST/own"])
	assert.Equal(t, []string{"", "", ""}, keys["PUT/"])

	transport.IdempotencyKey = func(*http.Request) string { return "" }
	send("POST", "/none")
	assert.Equal(t, []string{""}, keys["POST/none"])
}

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
					body := testkit.Must(io.ReadAll(req.Body))(t)
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
				resp := testkit.Must(transport.RoundTrip(req))(t)
				require.NoError(t, resp.Body.Close())
				require.Len(t, seen, 4)
				for _, attempt := range seen {
					assert.Equal(t, seen[0], attempt)
				}
			})
		}
	}
}

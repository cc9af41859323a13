package retryhttp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryslog"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The defects of other clients that were collected before this package was written
// are numbered B1 to B36. Each has a test here that fails on a client with that
// defect, or a line in peerElsewhere.

// peerElsewhere are tests in other places for what is no business of HTTP.
var peerElsewhere = []struct{ row, file, test, why string }{
	{"B16", "../inspect_test.go", "TestClassifyDNS", "names that are not found, and resolvers in trouble"},
	{"B17", "../errno_test.go", "TestErrnosOnDialing", "every errno, after dialing and later"},
	{"B24", "../peers_hints_test.go", "TestT40_HintOverflow", "hints in errors"},
	{"B26", "hint_test.go", "TestParseHint", "milliseconds that do not fit"},
	{"B31", "../errno_test.go", "TestErrnosOfWindows", "the numbers of Winsock, on every system"},
	{"B32", "../methods_test.go", "TestMethodsThatAreNoConvention", "Recoverable"},
	{"B36", "../peers_delay_test.go", "TestT65_AttemptHuge", "backoffs without end"},
}

// peerDisputed are rows where the peer contradicts itself, and there is nothing to
// hold on to: whether AWS waits 50ms or 1s before it polls again.
var peerDisputed = []string{"B18"}

func peerTests(t *testing.T, file string) map[string]*ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	tests := map[string]*ast.FuncDecl{}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests[f.Name.Name] = f
		}
	}
	return tests
}

func TestPeersHaveTests(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, row := range peerDisputed {
		covered[row] = true
	}
	for _, e := range peerElsewhere {
		assert.Contains(t, peerTests(t, e.file), e.test, "%s: %s", e.row, e.why)
		covered[e.row] = true
	}
	name := regexp.MustCompile(`^TestB0?([0-9]+)_`)
	for test := range peerTests(t, "peers_test.go") {
		if m := name.FindStringSubmatch(test); m != nil {
			covered["B"+m[1]] = true
		}
	}
	for n := 1; n <= 36; n++ {
		assert.Contains(t, covered, fmt.Sprint("B", n))
	}
}

// T-32 to T-38 are about HTTP.
func TestPeersHaveTestsForTheList(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	docs := strings.Builder{}
	for _, file := range files {
		if file == "peers_test.go" {
			continue
		}
		for _, test := range peerTests(t, file) {
			docs.WriteString(test.Doc.Text())
		}
	}
	for n := 32; n <= 38; n++ {
		assert.Contains(t, docs.String(), fmt.Sprintf("T-%d", n))
	}
}

// peerBase counts the attempts that get to a transport.
type peerBase struct {
	http.RoundTripper
	attempts atomic.Int64
}

func (b *peerBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.attempts.Add(1)
	return b.RoundTripper.RoundTrip(req)
}

func peerOver(t *testing.T, base *http.Transport) *peerBase {
	t.Helper()
	t.Cleanup(base.CloseIdleConnections)
	return &peerBase{RoundTripper: base}
}

// peerAnswers answers with a status, without a network.
func peerAnswers(code int, keysAndValues ...string) *peerBase {
	return &peerBase{RoundTripper: roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: headers(keysAndValues...), Body: http.NoBody, Request: req}, nil
	})}
}

// peerFails fails, without a network.
func peerFails(err error) *peerBase {
	return &peerBase{RoundTripper: roundTripper(func(*http.Request) (*http.Response, error) { return nil, err })}
}

// peerAttempts returns how many attempts a request gets out of three.
func peerAttempts(t *testing.T, base *peerBase, method, target string, keysAndValues ...string) int {
	t.Helper()
	p := atOnce(3)
	p.Clock = &retrytest.Clock{}
	c := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}}
	before := base.attempts.Load()
	resp, err := c.Do(request(t, method, target, nil, keysAndValues...))
	if err == nil {
		_ = resp.Body.Close()
	}
	return int(base.attempts.Load() - before)
}

// peerWaits returns the waits after an answer of a server, and how many there
// are of it.
func peerWaits(t *testing.T, p *retry.Policy, code int, keysAndValues ...string) (waits []time.Duration, resp *http.Response) {
	t.Helper()
	clock := retrytest.NewClock(noon)
	p.Clock = clock
	transport := &retryhttp.Transport{Base: peerAnswers(code, keysAndValues...), Policy: p, Budget: retryhttp.NoBudget}
	resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return clock.Sleeps(), resp
}

// --- secrets ---

// peerSecrets must not be told.
var peerSecrets = []string{"s3cret", "ghp_x", "t0ken", "fr4gment"}

// peerTells collects what anybody may be told of a request that fails.
type peerTells struct {
	t     *testing.T
	texts map[string]string
}

func (p *peerTells) tell(from string, err error) {
	if err == nil {
		return
	}
	p.texts[from] += err.Error() + "\n" + fmt.Sprintf("%v %+v", err, err) + "\n"
	var status *retryhttp.StatusError
	if errors.As(err, &status) {
		p.texts[from+", StatusError"] += fmt.Sprintf("%s %+v\n", status, *status)
	}
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) && gaveUp.Err != nil {
		p.texts[from+", last error"] += gaveUp.Err.Error() + "\n"
	}
	if inURL, ok := err.(*url.Error); ok { // not errors.As: what is wrapped is as it was, see Redact
		p.texts[from+", url.Error"] += inURL.URL + " " + inURL.Err.Error() + "\n"
	}
}

// request makes a request in every way there is.
func (p *peerTells) request(base http.RoundTripper, method, target string) {
	var logged bytes.Buffer
	policy := atOnce(2)
	policy.Observer = retry.Observers(
		retry.ObserverFunc(func(_ context.Context, e retry.Event) { p.tell("event "+e.Kind.String(), e.Err) }),
		retryslog.New(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: retryslog.Off})), nil),
	)
	transport := &retryhttp.Transport{Base: base, Policy: policy}
	client := &http.Client{Transport: transport}

	resp, err := transport.RoundTrip(request(p.t, method, target, nil))
	if p.tell("RoundTrip", err); err == nil {
		_ = resp.Body.Close()
	}
	resp, err = client.Do(request(p.t, method, target, nil))
	if p.tell("client, redacted", retryhttp.Redact(err)); err == nil {
		_ = resp.Body.Close()
	}
	read := func(resp *http.Response) error {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	p.tell("Do", retryhttp.Do(client, nil, request(p.t, method, target, nil), read))
	p.tell("Do without Transport", retryhttp.Do(&http.Client{Transport: base}, policy, request(p.t, method, target, nil), read))
	p.texts["log"] += logged.String()
}

func (p *peerTells) check(want ...string) {
	p.t.Helper()
	for _, from := range want {
		assert.NotEmpty(p.t, p.texts[from], "nothing was told: %s", from)
	}
	for from, text := range p.texts {
		for _, secret := range peerSecrets {
			assert.NotContains(p.t, text, secret, "%s", from)
		}
	}
}

// peerTargets are URLs with secrets in them.
func peerTargets(rawURL string) []string {
	_, address, _ := strings.Cut(rawURL, "://")
	scheme := strings.TrimSuffix(rawURL, address)
	return []string{
		scheme + "user:s3cret@" + address + "/path?access_token=t0ken&x=1",
		scheme + "ghp_x@" + address + "/path",
		scheme + "ghp_x:@" + address + "/path?t0ken",
		scheme + address + "/path?key=t0ken#fr4gment",
		scheme + address + "?t=t0ken",
	}
}

func peerSecretScenes(t *testing.T) map[string]struct {
	base http.RoundTripper
	url  string
	want []string
} {
	t.Helper()
	own := func() *http.Transport {
		base := &http.Transport{}
		t.Cleanup(base.CloseIdleConnections)
		return base
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refused := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	untrusted := httptest.NewUnstartedServer(status(200))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	// As a Base that is an http.Client in disguise would.
	wrapping := roundTripper(func(req *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: syscall.ECONNRESET}
	})
	talking := roundTripper(func(req *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("cannot get %q: %w", req.URL, io.ErrUnexpectedEOF)
	})
	invalidProxy := "http://user:s3cret@127.0.0.1:port"
	withProxy := own()
	withProxy.Proxy = func(*http.Request) (*url.URL, error) {
		_, err := url.Parse(invalidProxy)
		return nil, fmt.Errorf("invalid proxy address: %w", err)
	}
	all := []string{"RoundTrip", "client, redacted", "Do", "Do without Transport", "log", "event gave_up"}
	return map[string]struct {
		base http.RoundTripper
		url  string
		want []string
	}{
		"status":    {own(), serve(t, status(503)).URL, []string{"Do", "Do, StatusError", "log", "event retrying, StatusError"}},
		"refused":   {own(), refused, all},
		"reset":     {own(), serve(t, reset).URL, all},
		"untrusted": {own(), untrusted.URL, all},
		"wrapping":  {wrapping, refused, all},
		"talking":   {talking, refused, all},
		"proxy":     {withProxy, refused, all},
	}
}

// B2 too: the log, the events and the error of giving up.
func TestB01_SecretsOfURLs(t *testing.T) {
	t.Parallel()
	for name, scene := range peerSecretScenes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, target := range peerTargets(scene.url) {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					p := &peerTells{t: t, texts: map[string]string{}}
					p.request(scene.base, method, target)
					if method == http.MethodGet {
						p.check(scene.want...)
					}
					p.check()
				}
			}
		})
	}
}

// A token may stand where the user belongs, without a password.
func TestB02_TokensInPlaceOfUsers(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	_, address, _ := strings.Cut(s.URL, "://")
	err := retryhttp.Do(nil, atOnce(1), request(t, http.MethodGet, "http://ghp_x@"+address+"/a?b=t0ken", nil),
		func(*http.Response) error { return nil })
	assert.EqualError(t, err, "failed after 1 attempt: GET "+s.URL+"/a: 503 Service Unavailable")
}

// T15: net/http tells the Location that it does not follow, with its password.
func TestB02_SecretsOfLocations(t *testing.T) {
	t.Parallel()
	for _, location := range []string{
		"http://user:s3cret@%s/?token=t0ken", "http://ghp_x@%s/", "/?token=t0ken#fr4gment",
		"http://user:s3cret@%s:port/?t0ken", "http://user:s3cret@[::1/", "http://user:s3cret%%@%s/", "ftp://user:s3cret@%s/t?t=t0ken",
		"://user:s3cret@host", "http://user:s3cret@ho st/?t0ken",
	} {
		t.Run(location, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				to := location
				if strings.Contains(location, "%") {
					to = fmt.Sprintf(location, r.Host)
				}
				w.Header()["Location"] = []string{to}
				w.WriteHeader(http.StatusFound)
			})
			p := &peerTells{t: t, texts: map[string]string{}}
			p.request(peerOver(t, &http.Transport{}), http.MethodGet, s.URL)
			p.check("client, redacted", "Do", "Do without Transport")
		})
	}
}

// The user and the password of a proxy are in its URL.
func TestB02_SecretsOfProxies(t *testing.T) {
	t.Parallel()
	for _, code := range []int{407, 403, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := serve(t, status(code, "Proxy-Authenticate", "Basic realm=s3cret"))
			proxy, err := url.Parse(s.URL)
			require.NoError(t, err)
			proxy.User, proxy.RawQuery = url.UserPassword("user", "s3cret"), "t0ken"
			base := peerOver(t, &http.Transport{
				Proxy: http.ProxyURL(proxy), OnProxyConnectResponse: retryhttp.ProxyConnectError,
			})
			p := &peerTells{t: t, texts: map[string]string{}}
			p.request(base, http.MethodGet, "https://ghp_x@example.invalid/?t0ken")
			p.check("RoundTrip", "RoundTrip, StatusError", "client, redacted", "Do", "log")
			assert.Contains(t, p.texts["RoundTrip"], "CONNECT "+s.URL)
		})
	}
}

// --- hints ---

var peerHuge = []string{
	"9223372036", "9223372037", "18446744073", "18446744074", "9223372036854775807", "18446744073709551617",
	"1" + strings.Repeat("0", 400), "99999999999.5",
}

// A hint that does not fit is long, not short: no hot loop.
func TestB03_HintOverflow(t *testing.T) {
	t.Parallel()
	for _, value := range peerHuge {
		for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			if name != "Retry-After" && len(value) < 19 {
				continue // fits
			}
			waits, _ := peerWaits(t, atOnce(6), 429, name, value)
			assert.Empty(t, waits, "%s: %s", name, value)
			// Not even where any wait is allowed: it is as long as can be.
			p := &retry.Policy{Backoff: retry.Constant(0), MaxRetryAfter: math.MaxInt64}
			v := retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: headers(name, value)}, noon)
			d := p.Decide(retry.State{}, v, noon)
			assert.GreaterOrEqual(t, v.After, 100*365*24*time.Hour, "%s: %s", name, value)
			assert.True(t, d.Retry)
			assert.GreaterOrEqual(t, d.Delay, v.After, "%s: %s", name, value)
			assert.False(t, d.At.Before(noon))
		}
	}
	last := time.Duration(-1)
	for n := int64(1); n < 1<<62; n *= 2 {
		d, ok := retryhttp.ParseHint(429, headers("Retry-After", fmt.Sprint(n)), time.Unix(0, 0))
		require.True(t, ok)
		require.GreaterOrEqual(t, d, last, "%d", n)
		last = d
	}
}

func peerCaps(t *testing.T, header string) {
	t.Helper()
	waits, resp := peerWaits(t, retryhttp.DefaultPolicy(), 429, "Retry-After", header)
	assert.Empty(t, waits, "neither waited for nor cut short")
	assert.Equal(t, 1, retryhttp.Attempts(resp))
	assert.Equal(t, header, resp.Header.Get("Retry-After"), "for the caller to see")
}

func TestB04_HintHasACap(t *testing.T) {
	t.Parallel()
	peerCaps(t, "86400")
	p := retryhttp.DefaultPolicy()
	p.MaxRetryAfter = 48 * time.Hour
	waits, _ := peerWaits(t, p, 429, "Retry-After", "86400")
	require.Len(t, waits, 2, "the caller decides")
	assert.GreaterOrEqual(t, waits[0], 24*time.Hour)
}

func TestB34_HintHasACap(t *testing.T) {
	t.Parallel()
	peerCaps(t, "21601")                         // more than the six hours of urllib3
	peerCaps(t, "Fri, 20 Nov 2026 13:00:00 GMT") // as a date too
	waits, _ := peerWaits(t, retryhttp.DefaultPolicy(), 503, "Retry-After", "60")
	assert.Len(t, waits, 2)
}

// Docker Hub sends a Unix time.
func TestB35_UnixTimeInRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1746136938-20, 0)
	d, ok := retryhttp.ParseHint(429, headers("retry-after", "1746136938"), now)
	assert.True(t, ok)
	assert.Equal(t, 20*time.Second, d)
	d, ok = retryhttp.ParseHint(429, headers("retry-after", "1746136938"), now.Add(time.Hour))
	assert.True(t, ok)
	assert.Zero(t, d, "it has passed")
}

// Dates count, a sign is no number, and nothing is a special value.
func TestB13_DatesAndSigns(t *testing.T) {
	t.Parallel()
	plain := func() *retry.Policy {
		return &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
	}
	waits, _ := peerWaits(t, plain(), 503,
		"Retry-After", "Fri, 20 Nov 2026 09:00:30 GMT", "Date", "Fri, 20 Nov 2026 09:00:00 GMT")
	require.Len(t, waits, 2)
	assert.GreaterOrEqual(t, waits[0], 30*time.Second)
	assert.LessOrEqual(t, waits[0], 33*time.Second)
	for _, value := range []string{"-1", "+5", "-0", "0x10", "", "soon"} {
		waits, _ = peerWaits(t, plain(), 429, "Retry-After", value)
		assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, waits, "%q", value)
	}
}

func TestB15_Milliseconds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		waits, _ := peerWaits(t, atOnce(2), 429, name, "1500", "Retry-After", "30")
		require.Len(t, waits, 1)
		assert.GreaterOrEqual(t, waits[0], 1500*time.Millisecond)
		assert.LessOrEqual(t, waits[0], 1650*time.Millisecond)
	}
}

// peerDrip is the body of a server that never comes to the end.
type peerDrip struct {
	once   sync.Once
	closed chan struct{}
}

func (d *peerDrip) Read(p []byte) (int, error) {
	select {
	case <-d.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-time.After(10 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

func (d *peerDrip) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Responses that nobody will see are not waited for.
func TestB15_SlowBodiesAreNotDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []*peerDrip
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			body := &peerDrip{closed: make(chan struct{})}
			bodies = append(bodies, body)
			return &http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: body}, nil
		})
		begun := time.Now()
		resp, err := (&retryhttp.Transport{Base: base, Policy: atOnce(3)}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begun), 200*time.Millisecond)
		require.Len(t, bodies, 3)
		<-bodies[0].closed
		<-bodies[1].closed
		require.NoError(t, resp.Body.Close())
	})
}

func TestB08_HintInTheBody(t *testing.T) {
	t.Parallel()
	const body = `{"message": "slow down", "retry_after": 4.57}`
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, body)
	})
	clock := &retrytest.Clock{}
	p := atOnce(2)
	p.Clock = clock
	transport := &retryhttp.Transport{
		Base: peerOver(t, &http.Transport{}), Policy: p, Budget: retryhttp.NoBudget, BodyHints: true,
	}
	resp, err := transport.RoundTrip(request(t, http.MethodGet, s.URL, nil))
	require.NoError(t, err)
	require.Len(t, clock.Sleeps(), 1)
	assert.GreaterOrEqual(t, clock.Sleeps()[0], 4570*time.Millisecond)
	assert.Equal(t, body, text(t, resp), "the caller gets all of it")
}

// Number formats of other languages are no numbers here.
func TestB21_NumbersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1e300", "NaN", "Inf", "-Inf", "Infinity", "1e9", "0x7fffffff", "1_000", "１２"} {
		p := &retry.Policy{MaxAttempts: 6, Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
		waits, _ := peerWaits(t, p, 429, "Retry-After", value)
		require.Len(t, waits, 5, value)
		for _, wait := range waits {
			assert.Equal(t, 7*time.Second, wait, "%s: the ordinary wait", value)
		}
	}
}

func TestB26_MillisecondsOverflow(t *testing.T) {
	t.Parallel()
	last := time.Duration(-1)
	for _, value := range []string{
		"0", "1", "9223372036854", "9223372036855", "18446744073710", "9223372036854775807", "9223372036854775808",
	} {
		d, ok := retryhttp.ParseHint(429, headers("Retry-After-Ms", value), noon)
		require.True(t, ok)
		assert.GreaterOrEqual(t, d, last, value)
		last = d
	}
	assert.Equal(t, time.Duration(math.MaxInt64), last)
}

func TestB27_FractionsAndInterruption(t *testing.T) {
	t.Parallel()
	d, ok := retryhttp.ParseHint(429, headers("Retry-After", "64.57"), noon)
	assert.True(t, ok)
	assert.Equal(t, 64570*time.Millisecond, d)
	d, ok = retryhttp.ParseBodyHint([]byte(`{"retry_after": 64.57}`))
	assert.True(t, ok)
	assert.Equal(t, 64570*time.Millisecond, d)

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		begun := time.Now()
		transport := &retryhttp.Transport{Base: peerAnswers(429, "Retry-After", "30")}
		_, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestB28_GarbageAndThePast(t *testing.T) {
	t.Parallel()
	_, ok := retryhttp.ParseHint(429, headers("Retry-After", "garbage"), noon)
	assert.False(t, ok, "not 0, which would be a hint")
	past := []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(noon.Add(-time.Hour).Unix())}
	d, ok := retryhttp.ParseHint(403, headers(past...), noon)
	assert.True(t, ok)
	assert.Zero(t, d)
	p := &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
	waits, _ := peerWaits(t, p, 403, past...)
	assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, waits, "retried, and no hot loop")
}

func TestB29_GarbageKeepsTheClass(t *testing.T) {
	t.Parallel()
	v := retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "soon")}, noon)
	assert.Equal(t, retry.RateLimited, v.Class)
	assert.Zero(t, v.After)
	assert.True(t, v.NotApplied)
	assert.Equal(t, 3, peerAttempts(t, peerAnswers(429, "Retry-After", "soon"), http.MethodPost, "http://127.0.0.1"))
}

// --- what is retried ---

func TestB05_PostIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []int{500, 502, 503, 504} {
		s := serve(t, status(code))
		base := peerOver(t, &http.Transport{})
		assert.Equal(t, 1, peerAttempts(t, base, http.MethodPost, s.URL), "%d", code)
		assert.Equal(t, 1, peerAttempts(t, base, http.MethodPatch, s.URL), "%d", code)
		err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodPost, s.URL, nil),
			func(*http.Response) error { return nil })
		require.ErrorIs(t, err, retry.ErrMaybeApplied)
		assert.EqualValues(t, 3, s.requests.Load())
	}
	var mu sync.Mutex
	keys := map[string]int{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		w.WriteHeader(http.StatusInternalServerError)
	})
	assert.Equal(t, 3, peerAttempts(t, peerOver(t, &http.Transport{}), http.MethodPost, s.URL, "Idempotency-Key", "k1"))
	assert.Equal(t, map[string]int{"k1": 3}, keys)
}

func TestB06_TheLastResponseIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "X-Why", "maintenance"))
	resp, err := client(t, nil, atOnce(3)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "maintenance", resp.Header.Get("X-Why"))
	assert.Equal(t, "status 503", text(t, resp))

	err = retryhttp.Do(nil, atOnce(3), request(t, http.MethodGet, s.URL, nil), func(*http.Response) error { return nil })
	var failed *retryhttp.StatusError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 503, failed.StatusCode)
	assert.Equal(t, "status 503", string(failed.Body))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
	p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })
	_, err = client(t, nil, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, &failed, "also when the context ends")
	assert.Equal(t, 503, failed.StatusCode)
}

// The idle connections are those of others too.
func TestB07_OtherConnectionsStay(t *testing.T) {
	t.Parallel()
	good := serve(t, status(200))
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	c := client(t, base, atOnce(3))
	for _, bad := range []http.HandlerFunc{status(503), reset, status(421), status(404)} {
		resp, err := c.Get(good.URL)
		require.NoError(t, err)
		assert.Equal(t, "status 200", text(t, resp))
		resp, err = c.Get(serve(t, bad).URL)
		if err == nil {
			_ = text(t, resp)
		}
	}
	assert.EqualValues(t, 1, good.conns.Load())
}

// peerCertificates are transports for which a server's certificate does not hold.
func peerCertificates(s *httptest.Server) map[string]*http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return map[string]*http.Transport{
		"unknown authority": {},
		"hostname":          {TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "wrong.invalid"}},
		"expired": {TLSClientConfig: &tls.Config{
			RootCAs: roots, Time: func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) },
		}},
		"not yet valid": {TLSClientConfig: &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC) }}},
	}
}

func peerTLS(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(status(200))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestB09_Certificates(t *testing.T) {
	t.Parallel()
	s := peerTLS(t)
	for name, base := range peerCertificates(s) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			counted := peerOver(t, base)
			_, err := (&retryhttp.Transport{Base: counted, Policy: atOnce(3)}).RoundTrip(request(t, method, s.URL, nil))
			require.Error(t, err, name)
			assert.EqualValues(t, 1, counted.attempts.Load(), "%s: %v", name, err)
		}
	}
}

// Nor are they retried where a client has wrapped the error.
func TestB10_CertificatesWrapped(t *testing.T) {
	t.Parallel()
	s := peerTLS(t)
	for name, transport := range peerCertificates(s) {
		base := peerOver(t, transport)
		err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodGet, s.URL, nil),
			func(*http.Response) error { return nil })
		var invalid *tls.CertificateVerificationError
		require.ErrorAs(t, err, &invalid, name)
		assert.EqualValues(t, 1, base.attempts.Load(), name)
		assert.Equal(t, retry.Final, retryhttp.Classify(fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))).Class)
	}
}

// peerSays is a server that says something, whatever it is asked.
func peerSays(t *testing.T, words string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Read(make([]byte, 1<<10))
				_, _ = io.WriteString(conn, words)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestB11_WhatCannotHelp(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	secure := peerTLS(t)
	garbage := peerSays(t, "SSH-2.0-OpenSSH_9.6\r\n\r\n")
	demanding := httptest.NewUnstartedServer(status(200))
	demanding.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	demanding.Config.ErrorLog = log.New(io.Discard, "", 0)
	demanding.StartTLS()
	t.Cleanup(demanding.Close)
	proxy, err := url.Parse(serve(t, status(407)).URL)
	require.NoError(t, err)
	trusting := func() *http.Transport { return secure.Client().Transport.(*http.Transport).Clone() }
	noName := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x.invalid", IsNotFound: true}}
	}}
	tests := []struct {
		name   string
		base   *http.Transport
		url    string
		change func(*http.Request)
	}{
		{"no host", &http.Transport{}, s.URL, func(r *http.Request) { r.URL.Host = "" }},
		{"no URL", &http.Transport{}, s.URL, func(r *http.Request) { r.URL = nil }},
		{"unsupported scheme", &http.Transport{}, s.URL, func(r *http.Request) { r.URL.Scheme = "gopher" }},
		{"invalid method", &http.Transport{}, s.URL, func(r *http.Request) { r.Method = "GE T" }},
		{"invalid header name", &http.Transport{}, s.URL, func(r *http.Request) { r.Header["a b"] = []string{"c"} }},
		{"invalid header value", &http.Transport{}, s.URL, func(r *http.Request) { r.Header["A"] = []string{"b\n"} }},
		{"malformed response", &http.Transport{}, "http://" + garbage, nil},
		{"no TLS", &http.Transport{}, "https://" + garbage, nil},
		{"scheme mismatch", &http.Transport{}, strings.Replace(s.URL, "http:", "https:", 1), nil},
		{"remote alert", trusting(), demanding.URL, nil},
		{"proxy 407", &http.Transport{Proxy: http.ProxyURL(proxy)}, "https://example.invalid", nil},
		{"name does not exist", noName, "http://x.invalid", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := peerOver(t, test.base)
			req := request(t, http.MethodGet, test.url, nil)
			if test.change != nil {
				test.change(req)
			}
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), Budget: retryhttp.NoBudget}
			_, err := transport.RoundTrip(req)
			require.Error(t, err)
			var gaveUp *retry.Error
			assert.NotErrorAs(t, err, &gaveUp, "Final errors are returned as they are")
			assert.EqualValues(t, 1, base.attempts.Load(), "%v", err)
		})
	}
}

func TestB11_StatusesThatCannotHelp(t *testing.T) {
	t.Parallel()
	for _, code := range []int{
		0, 1, 99, 400, 401, 402, 404, 405, 406, 407, 410, 411, 412, 414, 415, 416, 417, 422, 424, 426, 428, 431, 451, 499,
		501, 505, 506, 507, 508, 510, 511, 525, 526, 600, 700, 999,
	} {
		assert.Equal(t, 1, peerAttempts(t, peerAnswers(code, "Retry-After", "1"), http.MethodGet, "http://127.0.0.1"), "%d", code)
	}
}

func TestB12_WhatCanHelp(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch} {
		for _, code := range []int{408, 425} {
			assert.Equal(t, 3, peerAttempts(t, peerAnswers(code), method, "http://127.0.0.1"), "%s %d", method, code)
		}
		// 421: once more, over another connection.
		s := serve(t, status(421), status(200))
		resp, err := client(t, nil, atOnce(3)).Do(request(t, method, s.URL, nil))
		require.NoError(t, err)
		assert.Equal(t, "status 200", text(t, resp))
		assert.EqualValues(t, 2, s.conns.Load(), method)
		s = serve(t, status(421))
		assert.Equal(t, 421, func() int {
			resp, err := client(t, nil, atOnce(9)).Do(request(t, method, s.URL, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}())
		assert.EqualValues(t, 2, s.requests.Load(), method)
	}
}

func TestB14_BodiesAreWhole(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("0123456789", 10_000)
	bodies := map[string]func(*http.Request){
		"GetBody": func(*http.Request) {},
		"seeker": func(r *http.Request) {
			seeker := strings.NewReader("skipped" + want)
			_, _ = seeker.Seek(7, io.SeekStart)
			r.GetBody, r.Body = nil, struct {
				io.ReadSeeker
				io.Closer
			}{seeker, io.NopCloser(nil)}
		},
		"buffered": func(r *http.Request) { r.GetBody = nil },
	}
	for name, prepare := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(next http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					assert.True(t, string(body) == want, "%d bytes", len(body))
					next(w, r)
				}
			}
			s := serve(t, check(status(503)), check(reset), check(status(200)))
			transport := &retryhttp.Transport{Base: peerOver(t, &http.Transport{}), Policy: atOnce(3), BufferBody: 1 << 20}
			req := request(t, http.MethodPut, s.URL, strings.NewReader(want))
			prepare(req)
			getBody, asked := req.GetBody, 0
			if getBody != nil {
				req.GetBody = func() (io.ReadCloser, error) { asked++; return getBody() }
			}
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			assert.Equal(t, "status 200", text(t, resp))
			if getBody != nil {
				assert.Equal(t, 2, asked, "for every attempt but the first, and not kept in memory")
			}
		})
	}
}

// The context of the attempt ends with the body, not with the call.
func TestB14_BodyIsReadableAfterwards(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
	p := atOnce(2)
	p.AttemptTimeout = time.Hour
	resp, err := client(t, nil, p).Get(s.URL)
	require.NoError(t, err)
	assert.Len(t, text(t, resp), len(large))
}

// DNS: only "there is no such name" is final.
func TestB16_Names(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err      net.DNSError
		attempts int
	}{
		{net.DNSError{IsNotFound: true}, 1},
		{net.DNSError{IsTimeout: true}, 3},
		{net.DNSError{IsTemporary: true}, 3},
		{net.DNSError{IsTimeout: true, IsTemporary: true}, 3},
	}
	for _, test := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost} { // nothing was sent
			base := peerFails(&net.OpError{Op: "dial", Net: "tcp", Err: &test.err})
			assert.Equal(t, test.attempts, peerAttempts(t, base, method, "http://127.0.0.1"), "%s %+v", method, test.err)
		}
	}
	for _, err := range []error{net.ErrClosed, syscall.ECONNREFUSED} {
		base := peerFails(&net.OpError{Op: "read", Net: "tcp", Err: err})
		assert.Equal(t, 3, peerAttempts(t, base, http.MethodGet, "http://127.0.0.1"), "%v", err)
	}
}

func TestB17_Errnos(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		syscall.EPIPE, syscall.ECONNRESET, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)},
		io.ErrUnexpectedEOF, &url.Error{Op: "Get", URL: "x", Err: io.EOF}, &net.OpError{Op: "read", Err: io.EOF},
	} {
		assert.Equal(t, 3, peerAttempts(t, peerFails(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
		assert.Equal(t, 1, peerAttempts(t, peerFails(err), http.MethodPost, "http://127.0.0.1"), "%v", err)
	}
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EPERM} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		assert.Equal(t, 1, peerAttempts(t, peerFails(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
	}
	assert.Equal(t, 1, peerAttempts(t, peerFails(x509.UnknownAuthorityError{}), http.MethodGet, "http://127.0.0.1"))
}

// What net/http has no type for is found beneath others too.
func TestB23_DeepDown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		post int
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, 3},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, 3},
		{errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""), 1},
		{errors.New("http2: client connection lost"), 1},
		{errors.New("http2: Transport: cannot retry err [stream error] after Request.Body was written; define Request.GetBody to avoid this error"), 3},
	} {
		for _, err := range []error{
			test.err, &url.Error{Op: "Get", URL: "http://x", Err: test.err}, fmt.Errorf("a: %w", fmt.Errorf("b: %w", test.err)),
			errors.Join(errors.New("closing"), test.err),
		} {
			assert.Equal(t, 3, peerAttempts(t, peerFails(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
		}
		assert.Equal(t, test.post, peerAttempts(t, peerFails(test.err), http.MethodPost, "http://127.0.0.1"), "%v", test.err)
	}
}

func TestB24_HintsInErrors(t *testing.T) {
	t.Parallel()
	errCause := errors.New("cause")
	for _, test := range []struct {
		hint  time.Duration
		waits int
	}{{math.MaxInt64, 0}, {-1, 2}, {math.MinInt64, 2}} {
		clock := &retrytest.Clock{}
		p := &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter, Clock: clock}
		transport := &retryhttp.Transport{Base: peerFails(retry.MarkRateLimited(errCause, test.hint)), Policy: p}
		_, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.ErrorIs(t, err, errCause)
		require.Len(t, clock.Sleeps(), test.waits, "%d", test.hint)
		for _, wait := range clock.Sleeps() {
			assert.Equal(t, 7*time.Second, wait)
		}
	}
}

// Attempts are attempts: 3 are one request and two retries.
func TestB25_AttemptsAreAttempts(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		base := peerAnswers(503)
		resp, err := (&retryhttp.Transport{Base: base, Policy: atOnce(n)}).RoundTrip(
			request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.EqualValues(t, n, base.attempts.Load())
		assert.Equal(t, n, retryhttp.Attempts(resp))
	}
	base := peerFails(context.DeadlineExceeded) // not the caller's
	assert.Equal(t, 3, peerAttempts(t, base, http.MethodGet, "http://127.0.0.1"))
}

// An error may call itself recoverable because the connection is.
type peerRecoverable struct{}

func (peerRecoverable) Error() string     { return "NOT_FOUND" }
func (peerRecoverable) Recoverable() bool { return true }

func TestB32_RecoverableIsNotRetryable(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1, peerAttempts(t, peerFails(peerRecoverable{}), http.MethodGet, "http://127.0.0.1"))
}

func TestB36_BackoffsWithoutEnd(t *testing.T) {
	t.Parallel()
	p := retryhttp.DefaultPolicy()
	p.MaxAttempts, p.Jitter = retry.Unlimited, retry.NoJitter
	for _, n := range []int{30, 37, 40, 63, 64, 1000, 1 << 30} {
		assert.Equal(t, 10*time.Second, p.Delay(retry.State{Failures: n}), "%d", n)
	}
}

// --- contexts ---

// The timeout of an attempt is not the end of the call, and that of the caller is.
func TestB19_WhoseTimeout(t *testing.T) {
	t.Parallel()
	hanging := &peerBase{RoundTripper: roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	})}
	run := func(t *testing.T, ctx context.Context, p *retry.Policy, c *http.Client) (int, time.Duration, error) {
		t.Helper()
		base := &peerBase{RoundTripper: hanging}
		c.Transport = &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}
		begun := time.Now()
		_, err := c.Do(request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
		return int(base.attempts.Load()), time.Since(begun), err
	}
	bubble := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, f)
		})
	}
	timely := func(d time.Duration) *retry.Policy {
		p := atOnce(3)
		p.AttemptTimeout = d
		return p
	}
	bubble("attempt", func(t *testing.T) {
		t.Helper()
		attempts, took, err := run(t, t.Context(), timely(time.Second), &http.Client{})
		assert.Equal(t, 3, attempts)
		assert.Equal(t, 3*time.Second, took)
		var gaveUp *retry.Error
		require.ErrorAs(t, err, &gaveUp)
		assert.Equal(t, retry.StopAttempts, gaveUp.Stop)
	})
	bubble("caller", func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, errors.New("too slow for me"))
		defer cancel()
		attempts, took, err := run(t, ctx, timely(time.Minute), &http.Client{})
		assert.Equal(t, 1, attempts)
		assert.Equal(t, 1500*time.Millisecond, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "too slow for me")
	})
	bubble("both", func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		attempts, took, err := run(t, ctx, timely(time.Second), &http.Client{})
		assert.Equal(t, 2, attempts)
		assert.Equal(t, 1500*time.Millisecond, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	bubble("client", func(t *testing.T) {
		t.Helper()
		attempts, took, err := run(t, t.Context(), timely(time.Minute), &http.Client{Timeout: time.Second})
		assert.Equal(t, 1, attempts)
		assert.Equal(t, time.Second, took)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout(), "%v", err)
	})
}

// peerConns counts the open connections of a server.
func peerConns(t *testing.T, handler http.HandlerFunc) (s *httptest.Server, open *atomic.Int64) {
	t.Helper()
	open = &atomic.Int64{}
	s = httptest.NewUnstartedServer(handler)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		default:
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, open
}

func TestB20_CancelDuringTheWait(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			body := &onceBody{Reader: strings.NewReader("busy")}
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: body}, nil
			})
			p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
			p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) {
				assert.EqualValues(t, 1, body.closed.Load(), "before anybody waits")
			})
			begun := time.Now()
			_, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(
				request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 5*time.Second, time.Since(begun))
			assert.EqualValues(t, 1, body.closed.Load())
		})
	})
	t.Run("no connection left", func(t *testing.T) {
		t.Parallel()
		s, open := peerConns(t, status(503))
		base := &http.Transport{}
		p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			p := *p
			p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })
			_, err := client(t, base, &p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.LessOrEqual(t, open.Load(), int64(1), "all used the same")
		large, openLarge := peerConns(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 10<<20))
		})
		for _, err := range []error{io.ErrUnexpectedEOF, errors.ErrUnsupported, nil} {
			c := &http.Client{Transport: base}
			got := retryhttp.Do(c, atOnce(3), request(t, http.MethodGet, large.URL, nil),
				func(*http.Response) error { return err }) // does not read
			require.ErrorIs(t, got, err)
		}
		assert.Eventually(t, func() bool { return openLarge.Load() == 0 }, 10*time.Second, time.Millisecond)
		base.CloseIdleConnections()
		assert.Eventually(t, func() bool { return open.Load() == 0 }, 10*time.Second, time.Millisecond)
	})
}

// peerBroken answers with half of a body.
func peerBroken(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(w, "hello")
}

func TestB22_BodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	whole := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "helloworld") }
	for _, test := range []struct {
		method string
		header []string
		want   int64
	}{
		{http.MethodGet, nil, 2},
		{http.MethodPut, nil, 2},
		{http.MethodPost, []string{"Idempotency-Key", "k"}, 2},
		{http.MethodPost, nil, 1}, // it has been done
	} {
		s := serve(t, peerBroken, whole)
		got := ""
		err := retryhttp.Do(nil, atOnce(3), request(t, test.method, s.URL, nil, test.header...), func(resp *http.Response) error {
			data, err := io.ReadAll(resp.Body)
			got = string(data)
			return err
		})
		assert.Equal(t, test.want, s.requests.Load(), test.method)
		if test.want == 1 {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.ErrorIs(t, err, retry.ErrMaybeApplied)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "helloworld", got)
	}
	s, open := peerConns(t, peerBroken)
	base := &http.Transport{}
	err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodGet, s.URL, nil),
		func(resp *http.Response) error { _, err := io.ReadAll(resp.Body); return err })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, retry.ErrAttemptsExhausted)
	base.CloseIdleConnections()
	assert.Eventually(t, func() bool { return open.Load() == 0 }, 10*time.Second, time.Millisecond)
}

func TestB30_CancelIsCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, hang)
	for _, attemptTimeout := range []time.Duration{0, time.Hour} {
		errLeft := errors.New("user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := atOnce(3)
		p.AttemptTimeout = attemptTimeout
		base := &peerBase{RoundTripper: &http.Transport{}}
		time.AfterFunc(20*time.Millisecond, func() { cancel(errLeft) })
		_, err := client(t, base, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errLeft)
		assert.EqualValues(t, 1, base.attempts.Load())
	}
}

// A body is sent while it is produced, and no more of it is read than is sent.
func TestB30_BodiesAreNotCollected(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 10, 1 << 20} {
		produced := 0
		body := io.MultiReader(readerFunc(func() { produced++ }), strings.NewReader("hello"))
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			assert.Zero(t, produced, "before it is asked for")
			data, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(data))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, req.Body.Close()
		})
		transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), BufferBody: limit}
		resp, err := transport.RoundTrip(request(t, http.MethodPut, "http://127.0.0.1", body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 1, produced)
	}
}

// The server closes a connection in the moment in which it is used again. What was
// written may have been read.
func TestB33_KeepAliveRace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		header []string
		want   bool
	}{
		{http.MethodGet, nil, true},
		{http.MethodPut, nil, true},
		{http.MethodDelete, nil, true},
		{http.MethodPost, []string{"Idempotency-Key", "k"}, true},
		{http.MethodPost, nil, false},
	} {
		s := serve(t, status(200), func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close() // as if it had been idle for too long
			}
		}, status(200))
		c := client(t, nil, atOnce(3))
		resp, err := c.Do(request(t, http.MethodGet, s.URL, nil))
		require.NoError(t, err)
		_ = text(t, resp)
		resp, err = c.Do(request(t, test.method, s.URL, strings.NewReader("hello"), test.header...))
		if !test.want {
			require.ErrorIs(t, err, retry.ErrMaybeApplied, test.method)
			assert.EqualValues(t, 2, s.requests.Load())
			continue
		}
		require.NoError(t, err, test.method)
		assert.Equal(t, "status 200", text(t, resp))
		assert.EqualValues(t, 3, s.requests.Load())
	}
}

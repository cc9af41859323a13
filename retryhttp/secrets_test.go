package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// secrets has the texts that must not be shown.
var secrets = []string{"s3cret", "ghp_x", "t0ken", "fr4gment"}

// told collects all texts about a request that fails.
type told struct {
	t     *testing.T
	texts map[string]string
}

func (p *told) tell(from string, err error) {
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
func (p *told) request(base http.RoundTripper, method, target string) {
	var logged bytes.Buffer
	policy := atOnce(2)
	policy.Observer = retry.Observers(
		&retry.Observer{Event: func(_ context.Context, e retry.Event) { p.tell("event "+e.Kind.String(), e.Err) }},
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

func (p *told) check(want ...string) {
	p.t.Helper()
	for _, from := range want {
		assert.NotEmpty(p.t, p.texts[from], "nothing was told: %s", from)
	}
	for from, text := range p.texts {
		for _, secret := range secrets {
			assert.NotContains(p.t, text, secret, "%s", from)
		}
	}
}

// secretTargets are URLs with secrets in them.
func secretTargets(rawURL string) []string {
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

func secretScenes(t *testing.T) map[string]struct {
	base http.RoundTripper
	url  string
	want []string
} {
	t.Helper()
	own := func() *http.Transport { return provoke.Transport(t, &http.Transport{}) }
	refused := "http://" + provoke.ClosedPort(t)
	untrusted, _ := provoke.ServeTLS(t, nil, status(200))
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

// The log, the events and the error of giving up do not show them either.
func TestSecretsOfURLs(t *testing.T) {
	t.Parallel()
	for name, scene := range secretScenes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, target := range secretTargets(scene.url) {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					p := &told{t: t, texts: map[string]string{}}
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

// net/http tells the Location that it does not follow, with its password.
func TestSecretsOfLocations(t *testing.T) {
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
			p := &told{t: t, texts: map[string]string{}}
			p.request(provoke.Transport(t, &http.Transport{}), http.MethodGet, s.URL)
			p.check("client, redacted", "Do", "Do without Transport")
		})
	}
}

// The user and the password of a proxy are in its URL.
func TestSecretsOfProxies(t *testing.T) {
	t.Parallel()
	for _, code := range []int{407, 403, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := serve(t, status(code, "Proxy-Authenticate", "Basic realm=s3cret"))
			proxy := testkit.Must(url.Parse(s.URL))(t)
			proxy.User, proxy.RawQuery = url.UserPassword("user", "s3cret"), "t0ken"
			base := provoke.Transport(t, &http.Transport{
				Proxy: http.ProxyURL(proxy), OnProxyConnectResponse: retryhttp.ProxyConnectError,
			})
			p := &told{t: t, texts: map[string]string{}}
			p.request(base, http.MethodGet, "https://ghp_x@example.invalid/?t0ken")
			p.check("RoundTrip", "RoundTrip, StatusError", "client, redacted", "Do", "log")
			assert.Contains(t, p.texts["RoundTrip"], "CONNECT "+s.URL)
		})
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retryhttp.Redact(nil))
	plain := fmt.Errorf("x: %w", io.EOF)
	assert.Same(t, plain, retryhttp.Redact(plain))

	err := retryhttp.Redact(&url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: context.DeadlineExceeded})
	require.EqualError(t, err, `Get "http://h/p?token=***": context deadline exceeded`)
	e := testkit.As[*url.Error](t, err)
	assert.True(t, e.Timeout())
	require.ErrorIs(t, err, context.DeadlineExceeded)

	wrapped := fmt.Errorf("fetch: %w", &url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: io.EOF})
	err = retryhttp.Redact(wrapped)
	require.EqualError(t, err, `fetch: Get "http://h/p?token=***": EOF`)
	assert.ErrorIs(t, err, io.EOF)
}

func TestSecretsOfTheCallersOwnErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	err := retryhttp.Do(plainClient(t), atOnce(3), request(t, http.MethodGet, s.URL+"/?token=s3cret", nil), func(resp *http.Response) error {
		return errors.New("cannot decode " + resp.Request.URL.String())
	})
	require.EqualError(t, err, "cannot decode "+s.URL+"/?token=***")

	req := request(t, http.MethodPut, serve(t, status(503)).URL, strings.NewReader("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("open http://u:s3cret@h/") }
	_, err = (&retryhttp.Transport{Policy: atOnce(3)}).RoundTrip(req)
	require.ErrorContains(t, err, "open http://h/")
	assert.NotContains(t, err.Error(), "s3cret")
}

// The log says once per Transport that its own budget refuses retries, and nothing where the
// caller has taken over: with an Observer, with a Budget of its own, with Do.
func TestWarning(t *testing.T) { //nolint:paralleltest // slog.Default is shared
	original := slog.Default()
	t.Cleanup(func() { slog.SetDefault(original) })
	none := func(*http.Request) retry.Throttle { return &retry.Budget{Reserve: retry.NoReserve} }
	for name, test := range map[string]struct {
		transport *retryhttp.Transport
		budget    retry.Throttle
		observed  bool
		status    int
		want      int
	}{
		"the budget of the host":  {&retryhttp.Transport{}, nil, false, 503, 1},
		"no budget":               {&retryhttp.Transport{Budget: retryhttp.NoBudget}, nil, false, 503, 0},
		"a Budget of the policy":  {&retryhttp.Transport{}, none(nil), false, 503, 0},
		"a Budget of a Transport": {&retryhttp.Transport{Budget: none}, nil, false, 503, 0},
		"an Observer":             {&retryhttp.Transport{}, nil, true, 503, 0},
		"what is never retried":   {&retryhttp.Transport{}, nil, false, 404, 0},
	} {
		var log strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		base, _ := always(test.status)
		p := atOnce(3)
		p.Budget = test.budget
		if test.observed {
			p.Observer = &retry.Observer{Event: func(context.Context, retry.Event) {}}
		}
		test.transport.Base, test.transport.Policy = base, p
		for range 5 {
			testkit.Must(get(t, test.transport, "http://user:secret@host/secret?secret"))(t)
		}
		require.Error(t, retryhttp.Do(&http.Client{Transport: test.transport}, nil, request(t, "GET", "http://host2/", nil), nothing))
		assert.Equal(t, test.want, strings.Count(log.String(), "\n"), "%s: %s", name, log.String())
		if test.want > 0 {
			assert.Contains(t, log.String(), "level=WARN")
			assert.Contains(t, log.String(), "docs/why.md")
			assert.Contains(t, log.String(), "host=http://host\n")
		}
		assert.NotContains(t, log.String(), "secret")
	}
}

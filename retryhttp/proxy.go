package retryhttp

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ProxyConnectError returns a *[StatusError] if a proxy refuses to connect.
// net/http alone keeps only the status text of the proxy's response. Use it in the
// transport that has the Proxy:
//
//	&http.Transport{Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: retryhttp.ProxyConnectError}
func ProxyConnectError(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	after, _ := ParseHint(resp.StatusCode, resp.Header, time.Now())
	return &StatusError{Method: http.MethodConnect, URL: address(proxy), StatusCode: resp.StatusCode, After: after}
}

package retryhttp

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ProxyConnectError makes a *[StatusError] of the answer of a proxy that refuses to
// connect. net/http keeps but the text of its status. Use it in the transport that
// knows the proxy:
//
//	&http.Transport{Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: retryhttp.ProxyConnectError}
func ProxyConnectError(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	after, _ := ParseHint(resp.StatusCode, resp.Header, time.Now())
	return &StatusError{Method: http.MethodConnect, URL: address(proxy), StatusCode: resp.StatusCode, After: after}
}

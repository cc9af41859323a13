// Package retryhttp retries HTTP requests beneath an [http.Client]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
// [Transport] is an [http.RoundTripper], so the rest of the program stays as it
// is. A [retry.Policy] decides. This package adds the rules of HTTP: it knows
// which requests may be sent twice, sends their bodies again, discards the
// responses in between, and reads the hints of servers ([ParseHint]).
//
// # What it costs
//
// A Transport sends an idempotent request without a copy, and allocates nothing if
// it succeeds at once, unless the policy has a timeout or an Observer of attempts, Base has
// a ResponseHeaderTimeout, or its options add a header. Further attempts get a copy if
// Base has changed the request, which it should not, or if there is a body; the body itself
// is not copied. Each attempt of a request that is not idempotent, or that a timeout may
// end, gets a copy, watched with [net/http/httptrace]. The body of a failure is read so that
// its connection can be used again, if it has a Content-Length of up to 4 KiB; with any other
// body the connection is closed.
//
// # Dead connections
//
// A connection can die without a sign, for example when a proxy or a NAT forgets it. With an
// AttemptTimeout, or a ResponseHeaderTimeout of Base, such an attempt ends, and the next one
// uses another connection if Base is an *http.Transport. Over HTTP/1.1, net/http closes the
// connection itself. Over HTTP/2 it would use the connection for every request to the host,
// for many minutes. So if no answer began since the attempt did, the Transport leaves the
// connections to this host to the requests that use them, and sends the host's requests
// through a clone of Base; it may have more connections than MaxConnsPerHost for a while.
// Each attempt that waited for the dead connection costs a retry, later ones do not.
//
// Without these timeouts, and with another Base, let net/http ask whether the connection
// lives; it does not by default:
//
//	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
//
// golang.org/x/net/http2.Transport calls the first of them ReadIdleTimeout.
//
// # Limits
//
// If a Transport is the Base of another Transport or the transport of [Do], the
// outer one does not retry after the inner one gave up. The deprecated
// Request.Cancel ends an attempt and the call, but not a wait: use the context.
// Cookies that a failed attempt sets are lost, because an http.Client sees the last
// response only; with Do it sees all responses.
package retryhttp

// Package retryconnect retries the calls of [connectrpc.com/connect] clients: its
// [Interceptor] makes them under a [retry.Policy].
//
//	retries := &retryconnect.Interceptor{}
//	client := jobsv1connect.NewJobsClient(httpClient, url, connect.WithInterceptors(retries))
//
// A procedure whose definition has an idempotency_level is retried after the failures in
// this table. Others are retried only if the failed attempt is proved to have had no
// effect: there was no connection, or the server said that the call may be sent again.
//
//	code                what it is to a call
//	unavailable         Retryable; RateLimited and without effect with a hint of the server
//	deadline_exceeded   Retryable, if the caller's own deadline has not passed
//	resource_exhausted  RateLimited and without effect with a hint, and Final otherwise
//	aborted             Final: what has to be repeated is the whole transaction, see [Classify]
//	all others          Final
//
// A hint is a google.rpc.RetryInfo in the details of the error, or a Retry-After header,
// which are lower bounds for the wait; or grpc-retry-pushback-ms in the headers or trailers,
// which is the wait itself. All are bounded by MaxRetryAfter of the policy. A pushback that
// is negative, no number, or there twice forbids another attempt.
//
// # Streams
//
// Of a stream of responses to one request, only the opening is retried, and never after a
// message was delivered: the request is sent again if the stream fails before the first
// response, and before the caller has looked at the header. AttemptTimeout bounds the
// opening, and not the stream. Streams of requests pass through, because the server may
// have acted on some of the requests. So do the calls of handlers.
//
// # Other retries
//
// A client whose http.Client has a retryhttp.Transport must not have this Interceptor too,
// because their attempts would multiply; the Interceptor knows more, in particular the
// codes of the gRPC protocol, which come with status 200.
//
// A retry has the header grpc-previous-rpc-attempts, as retries of gRPC have. Categories
// are "connect_" and the name of the code, such as "connect_unavailable".
package retryconnect

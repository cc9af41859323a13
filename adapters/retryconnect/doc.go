// Package retryconnect retries the calls of [connectrpc.com/connect] clients: its
// [Interceptor] makes them under a [retry.Policy].
//
//	retries := &retryconnect.Interceptor{
//		Idempotent: func(procedure string) bool { return procedure == "/jobs.v1.Jobs/Get" },
//	}
//	client := newJobsClient(http.DefaultClient, server.URL, connect.WithInterceptors(retries))
//
// A procedure that may change something is sent again only with proof that nothing has happened, so say
// which may be repeated: by Idempotent, or by an idempotency_level in their definition. The function
// newJobsClient stands for one that connect has generated.
//
// A procedure whose definition has an idempotency_level is retried after the failures in
// this table. Others are retried only if the failed attempt is proved to have had no
// effect: the client has asked for a connection and got none, or the server said that the
// call may be sent again. The Interceptor learns from [net/http/httptrace] that there was
// no connection. An [http.Transport] supports httptrace; with a client that does not,
// there is no such proof. An error alone proves nothing, because it may come from a
// redirect or from something that a client or an interceptor has done after the call.
//
//	code                what it means for a call
//	unavailable         Retryable; RateLimited with a hint of the server, and without effect
//	                    unless the hint is a Retry-After
//	deadline_exceeded   Retryable, if the caller's own deadline has not passed
//	resource_exhausted  RateLimited, and without effect with a hint; Final if the details say that
//	                    a quota is used up for the day, or for a message that is too large
//	aborted             Final: the whole transaction has to be repeated, see [Classify]
//	all others          Final; Retryable if connect has this code for a lost connection
//
// A hint is a google.rpc.RetryInfo in the details of the error, or a Retry-After header,
// which are lower bounds for the wait; or grpc-retry-pushback-ms in the headers or trailers,
// which is the wait itself. All are bounded by MaxRetryAfter of the policy. A pushback that
// is negative, not a number, or there twice forbids another attempt. A Retry-After with
// the code unavailable does not say that the call may be sent again: it may come from a
// proxy that has lost the server's answer.
//
// # Streams
//
// Of a stream of responses to one request, only the opening is retried, and never after a
// message was delivered: a copy of the request is sent again if the stream fails before the
// first response, and before the caller has looked at the header. AttemptTimeout bounds the
// opening, and not the stream. When the caller has closed such a stream, has received its end,
// or has canceled its context, it holds on to nothing, and the Observer has heard the end of
// each attempt. If the context ends while the caller does not receive, the Observer hears so on
// another goroutine.
//
// Neither connect nor the Interceptor gives a call a deadline of its own: a server that is
// silent holds the caller until the context ends. Set AttemptTimeout or Timeout in the Policy,
// or a deadline in the context.
//
// Streams of requests pass through, even if the server has refused one before it began:
// the caller opens another and sends the requests again. (retrygrpc does so itself, with a
// limit.) connect writes the requests into a pipe that net/http reads once, so net/http does
// not repeat such a stream either. The calls of handlers pass through too.
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

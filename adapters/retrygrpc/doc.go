// Package retrygrpc retries gRPC calls: its [Interceptor] makes the calls of a
// [google.golang.org/grpc] client under a [retry.Policy].
//
//	retries := &retrygrpc.Interceptor{Policy: policy, Idempotent: retrygrpc.Methods("/grpc.health.v1.Health/*")}
//	conn, err := grpc.NewClient(address, append(retries.DialOptions(), security)...)
//
// A call that may change something is sent again only with proof that nothing has happened, so say which
// methods may be repeated: by Idempotent, as here, or in the proto definition, as below.
//
// # What is retried
//
// An idempotent method is retried after the failures in this table. Another method is
// retried only if the failed attempt is proved to have had no effect: grpc says that no
// connection took the call, or the status that ended the call has a hint of the server,
// which says that the call may be sent again. A code or a text alone proves nothing. An
// error that an interceptor behind this one has added proves nothing either.
//
//	code                what it means for a call
//	UNAVAILABLE         Retryable; RateLimited and without effect with a hint of the server
//	DEADLINE_EXCEEDED   Retryable, if the caller's own deadline has not passed
//	RESOURCE_EXHAUSTED  RateLimited, and without effect with a hint; Final if the details say that
//	                    a quota is used up for the day, or for a message that is too large
//	INTERNAL            Final; Retryable where grpc-go itself says that the connection was reset
//	ABORTED             Final: the whole transaction has to be repeated, see [Classify]
//	all others          Final, also codes that gRPC does not know
//
// A hint is a google.rpc.RetryInfo in the details of the status, which is a lower bound
// for the wait, or the trailer grpc-retry-pushback-ms, which is the wait itself. Both are
// bounded by MaxRetryAfter of the policy: the call ends at once if the server asks for
// more. A pushback that is negative, not a number, or there twice forbids another
// attempt, whatever the status and a classifier say. [On], as the policy's Classifier,
// adds codes.
//
// # Idempotent methods
//
// A method is idempotent if its proto definition says so and its generated code is in
// this program:
//
//	rpc Get(GetRequest) returns (GetResponse) { option idempotency_level = NO_SIDE_EFFECTS; }
//
// or if Interceptor.Idempotent says so, for which [Methods] makes a list.
//
// # Streams
//
// Only the opening of a stream is retried: it lasts until the caller has got a response or
// the header. A stream that fails before that is opened again by the same rules as a call,
// and its requests are sent again.
//
// If there may be several requests, the opening also ends when the server has sent a
// header, seen or not, because the server then works on the call. It ends too when the
// requests are longer than 256 KiB in all, or than [grpc.MaxRetryRPCBufferSize] says.
// These are the rules of grpc itself. Until then, copies of the requests are kept.
// RecvMsg returns the failure of a stream; SendMsg does so only when the opening is over.
// With a codec that does not send protobuf messages, the first request ends the opening.
//
// AttemptTimeout bounds the opening, and not the stream. If there may be several
// requests, it bounds the time until grpc has accepted the call, because the server may
// wait for the next request.
//
// A stream holds on to nothing when it has ended in one of the ways that [grpc.ClientConn]'s
// NewStream documents, and the Observer has then heard the end of each attempt. If an attempt
// ends while the caller does not receive, the Observer hears so on another goroutine.
//
// # Deadlines
//
// Neither grpc nor an Interceptor gives a call a deadline of its own: a server that is silent
// holds the caller until the context ends. Set AttemptTimeout or Timeout in the Policy, or a
// deadline in the context, and [grpc.WithKeepaliveParams] for connections that are dead.
//
// # Retries of grpc itself
//
// grpc-go retries by itself if a service config has a retryPolicy, and its attempts would
// multiply ours. DialOptions switches that off. Where Unary and Stream are used instead, a
// method with such a retryPolicy is left to grpc: there is one attempt here.
// What grpc calls transparent retries stays: a call that no server has seen is sent
// again, without a wait. An older retry interceptor in the same chain has to be taken out.
//
// # What it costs
//
// A call that succeeds at once has one allocation more than without an Interceptor: grpc
// copies the trailer, which has to be asked for before the call, for the case that it fails.
//
// # Telemetry
//
// A retry has the metadata grpc-previous-rpc-attempts, as retries of grpc have. The
// Observer of the policy sees every call. Categories are "grpc_" and the name of the code
// in lower case, such as "grpc_unavailable"; "timeout" is the AttemptTimeout.
package retrygrpc

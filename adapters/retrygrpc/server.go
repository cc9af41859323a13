package retrygrpc

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
)

// Overloaded returns the error with which a server refuses a call because it has too much
// to do: UNAVAILABLE, with the time after which the client may come back. A handler must
// return it before the call has had any effect, because clients then repeat calls that
// are not idempotent too:
//
//	if !limiter.Allow() {
//		return nil, retrygrpc.Overloaded(ctx, 2*time.Second, "too many jobs")
//	}
//
// The time is in the details, as google.rpc.RetryInfo, and in the trailer
// grpc-retry-pushback-ms, with up to 10 % more there, so that clients that read only
// that do not come back in step. If after is 0 or less, clients are told not to come
// back. ctx is the context of the handler; if it has no call, there is no trailer.
func Overloaded(ctx context.Context, after time.Duration, message string) error {
	return refuse(ctx, codes.Unavailable, after, message)
}

// RateLimited is [Overloaded] for a client that has used up its share, while others are
// served: the code is RESOURCE_EXHAUSTED.
func RateLimited(ctx context.Context, after time.Duration, message string) error {
	return refuse(ctx, codes.ResourceExhausted, after, message)
}

func refuse(ctx context.Context, code codes.Code, after time.Duration, message string) error {
	s := status.New(code, message)
	pushback := int64(-1)
	if after > 0 {
		ms := int64((after-1)/time.Millisecond) + 1 // rounded up
		pushback = min(ms+rand.Int64N(ms/10+1), math.MaxInt32)
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
			s = detailed
		}
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.FormatInt(pushback, 10))) // no call, no trailer
	return s.Err()
}

// UnaryServer is a [grpc.UnaryServerInterceptor] that answers with [RateLimited] if a
// handler returns an error that is not a status and has a mark of package retry, such as
// [retry.MarkRateLimited]. The mark must say RateLimited with a time and without effect.
// The message is the text of the error. An error without a mark may be about only a part
// of the handler's work, such as a request to another server.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	return resp, translate(ctx, err)
}

// StreamServer is [UnaryServer] for streams. If the stream has sent a message, the error
// stays as it is.
func StreamServer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s := &serverStream{ServerStream: stream}
	err := handler(srv, s)
	if s.sent {
		return err
	}
	return translate(stream.Context(), err)
}

type serverStream struct {
	grpc.ServerStream

	sent bool
}

// SendMsg implements [grpc.ServerStream].
func (s *serverStream) SendMsg(m any) error {
	s.sent = true
	return s.ServerStream.SendMsg(m)
}

// marks finds the mark of an error, which counts before its Classifier.
var marks = retry.Policy{Classifier: func(error) retry.Verdict { return retry.Verdict{Class: retry.Final} }}

func translate(ctx context.Context, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	v := marks.Classify(err)
	if v.Class != retry.RateLimited || v.After <= 0 || !v.NotApplied {
		return err
	}
	return RateLimited(ctx, v.After, err.Error())
}

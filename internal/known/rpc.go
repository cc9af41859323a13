package known

import (
	"reflect"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/hint"
)

// details are what the details of an RPC's status say.
//
// https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
type details struct {
	after  time.Duration // google.rpc.RetryInfo
	hinted bool          // the same, perhaps after no time
	reason Fact          // google.rpc.ErrorInfo, google.rpc.QuotaFailure
}

const mostDetails = 100 // a server can send millions

// grpcStatus classifies the status of a gRPC call, a *status.Status of grpc-go.
func grpcStatus(status reflect.Value) Fact {
	code, ok := result(status.MethodByName("Code"))
	if !ok {
		return Fact{}
	}
	if number(code) == grpcResourceExhausted && tooLarge(status) {
		return Permanent(grpcCode(grpcResourceExhausted).Category)
	}
	return grpcFact(number(code), func() details { return detailsOf(status) })
}

// tooLarge reports whether a message of a RESOURCE_EXHAUSTED is the one that grpc-go, grpc-java or
// Connect have for a message beyond the limit of its size. They have no other sign for it, and
// another attempt would send or receive the same.
func tooLarge(status reflect.Value) bool {
	message, ok := result(status.MethodByName("Message"))
	if !ok {
		return false
	}
	for _, words := range [...]string{"larger than max", "larger than configured max", "message exceeds maximum size"} {
		if strings.Contains(text(message), words) {
			return true
		}
	}
	return false
}

// grpcFact classifies a code. The details are read only where they say more. What is refused for
// load was not processed if the details say so; without them, it may be a part of a call that was
// refused.
func grpcFact(code int64, read func() details) Fact {
	f := grpcCode(code)
	switch code {
	case grpcDeadlineExceeded, grpcPermissionDenied, grpcResourceExhausted, grpcAborted, grpcUnavailable:
	default:
		return f
	}
	says := read()
	switch {
	case code == grpcAborted, code == grpcDeadlineExceeded:
		f.After = says.after
	case code != grpcUnavailable && says.reason.Class == Final && says.reason.Category != "":
		f = says.reason
	case says.hinted && code != grpcPermissionDenied, says.reason.Class == RateLimited:
		f = Rejected(f.Category)
		f.After = says.after
	}
	return f
}

// detailsOf reads the details of a status of grpc-go.
func detailsOf(status reflect.Value) (says details) {
	defer silence()
	found, ok := result(status.MethodByName("Details"))
	if !ok {
		return says
	}
	list, _ := reflect.TypeAssert[[]any](found)
	for _, detail := range list[:min(len(list), mostDetails)] {
		if detail != nil {
			says.add(detail)
		}
	}
	return says
}

// add reads a decoded detail.
func (d *details) add(detail any) {
	if e, ok := detail.(interface{ GetReason() string }); ok {
		d.reason = d.reason.or(Reason(e.GetReason()))
		return
	}
	v := reflect.ValueOf(detail)
	if delay, ok := result(v.MethodByName("GetRetryDelay")); ok {
		check, ok := reflect.TypeAssert[interface{ CheckValid() error }](delay)
		if ok && check.CheckValid() != nil {
			return
		}
		d.hinted = true
		if e, ok := reflect.TypeAssert[interface{ AsDuration() time.Duration }](delay); ok {
			d.after = max(d.after, e.AsDuration())
		}
		return
	}
	if list, ok := result(v.MethodByName("GetViolations")); ok && list.Kind() == reflect.Slice {
		for i := range min(list.Len(), mostDetails) {
			if e, ok := reflect.TypeAssert[interface{ GetQuotaId() string }](list.Index(i)); ok {
				d.reason = d.reason.or(PerDay(e.GetQuotaId()))
			}
		}
	}
}

// connectError classifies an error of Connect by its code, its details and its headers.
func connectError(v reflect.Value, name string) (Fact, int, time.Duration) {
	code, ok := result(v.MethodByName("Code"))
	if !ok || name != "Error" {
		return Fact{}, 0, 0
	}
	if number(code) == grpcResourceExhausted && tooLarge(v) {
		return Permanent(grpcCode(grpcResourceExhausted).Category), 0, 0
	}
	f := grpcFact(number(code), func() details { return connectDetails(v) })
	return f, 0, f.After
}

func connectDetails(v reflect.Value) (says details) {
	defer silence()
	if list, ok := result(v.MethodByName("Details")); ok && list.Kind() == reflect.Slice {
		for i := range min(list.Len(), mostDetails) {
			if e, ok := reflect.TypeAssert[interface {
				Type() string
				Bytes() []byte
			}](list.Index(i)); ok {
				says.decode(e.Type(), e.Bytes())
			}
		}
	}
	if meta, ok := result(v.MethodByName("Meta")); ok && says.after <= 0 {
		after, ok := hint.Parse(tooManyRequests, headers(meta), time.Time{})
		says.after, says.hinted = after, says.hinted || ok
	}
	return says
}

const tooManyRequests = 429

// decode reads a detail that is still in the form of the wire.
func (d *details) decode(kind string, wire []byte) {
	first := firstField(wire)
	switch kind {
	case "google.rpc.ErrorInfo":
		d.reason = d.reason.or(Reason(string(first)))
	case "google.rpc.RetryInfo":
		d.after, d.hinted = max(d.after, wireDuration(first)), d.hinted || first != nil
	}
}

// firstField returns the bytes of field 1 of a message of Protocol Buffers, if it comes first.
//
// https://protobuf.dev/programming-guides/encoding/
func firstField(wire []byte) []byte {
	const tag = 1<<3 | 2
	if len(wire) == 0 || wire[0] != tag {
		return nil
	}
	size, rest := varint(wire[1:])
	if size > uint64(len(rest)) {
		return nil
	}
	return rest[:size]
}

// wireDuration reads a google.protobuf.Duration of less than a year.
func wireDuration(wire []byte) (total time.Duration) {
	const seconds, nanoseconds, most = 1 << 3, 2 << 3, 366 * 24 * 60 * 60
	for len(wire) > 0 {
		field := wire[0]
		var n uint64
		n, wire = varint(wire[1:])
		switch {
		case field == seconds && n < most:
			total += time.Duration(n) * time.Second
		case field == nanoseconds && n < uint64(time.Second):
			total += time.Duration(n)
		default:
			return 0
		}
	}
	return total
}

// varint returns the number at the beginning, and what follows it.
func varint(wire []byte) (n uint64, rest []byte) {
	const most = 10
	for i := range min(len(wire), most) {
		n |= uint64(wire[i]&0x7f) << (7 * i)
		if wire[i] < 0x80 {
			return n, wire[i+1:]
		}
	}
	return 0, nil
}

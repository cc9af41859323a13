package retrygrpc_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const attempts = 3

// retried says which of the ways in which a server may fail a call are retried: for an
// idempotent method, and for another one.
type retried struct{ plain, info, pushback, forbidden [2]bool }

var (
	idem   = [2]bool{true, false}
	always = [2]bool{true, true}
)

// codesTable has all codes of gRPC, and one that it does not have.
var codesTable = map[codes.Code]retried{
	codes.OK:                 {},
	codes.Canceled:           {},
	codes.Unknown:            {},
	codes.InvalidArgument:    {},
	codes.DeadlineExceeded:   {plain: idem, info: idem, pushback: idem},
	codes.NotFound:           {},
	codes.AlreadyExists:      {},
	codes.PermissionDenied:   {},
	codes.ResourceExhausted:  {plain: idem, info: always, pushback: always},
	codes.FailedPrecondition: {},
	codes.Aborted:            {},
	codes.OutOfRange:         {},
	codes.Unimplemented:      {},
	codes.Internal:           {},
	codes.Unavailable:        {plain: idem, info: always, pushback: always},
	codes.DataLoss:           {},
	codes.Unauthenticated:    {},
	codes.Code(42):           {},
}

// TestCodesPage compares the last column of the codes in docs/why.md with the table.
func TestCodesPage(t *testing.T) {
	t.Parallel()
	page := testkit.Must(os.ReadFile("../../docs/why.md"))(t)
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		row := regexp.MustCompile(`(?m)^\|[^|]*\b` + code.Code(c).String() + `\b[^|]*\| \w+ \| (\w+) \|$`).FindSubmatch(page)
		require.NotNil(t, row, "the page has no row for %v", c)
		class := "final"
		switch {
		case c == codes.ResourceExhausted:
			class = "rate_limited"
		case codesTable[c].plain != (retried{}).plain:
			class = "retryable"
		}
		assert.Equal(t, class, string(row[1]), c)
	}
}

// TestCodes fails calls over the wire with every code, to idempotent methods and others,
// with and without what a server may say about retries.
func TestCodes(t *testing.T) {
	t.Parallel()
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		require.Contains(t, codesTable, code)
	}
	info := &errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)}
	pushback := func(values ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": values} }
	for code, want := range codesTable {
		for _, tt := range []struct {
			name    string
			details []protoadapt.MessageV1
			trailer metadata.MD
			want    [2]bool
			wait    time.Duration // at least; 0 is not looked at
			exact   bool
		}{
			{"plain", nil, nil, want.plain, 0, false},
			{"info", []protoadapt.MessageV1{info}, nil, want.info, 1500 * time.Millisecond, false},
			{"pushback", nil, pushback("250"), want.pushback, 250 * time.Millisecond, true},
			{"pushback 0", nil, pushback("0"), want.pushback, 0, true},
			{"pushback -1", nil, pushback("-1"), want.forbidden, 0, false},
			{"pushback that is no number", nil, pushback("soon"), want.forbidden, 0, false},
			{"pushback twice", nil, pushback("1", "2"), want.forbidden, 0, false},
			{"pushback that forbids, and info", []protoadapt.MessageV1{info}, pushback("-1"), want.forbidden, 0, false},
			{"info longer than pushback", []protoadapt.MessageV1{info}, pushback("20"), want.pushback, 1500 * time.Millisecond, false},
		} {
			for i, method := range []string{get, submit} {
				t.Run(fmt.Sprintf("%v, %s, %s", code, tt.name, method), func(t *testing.T) {
					t.Parallel()
					s := (&server{unary: func(ctx context.Context, _ int, _ string) (string, error) {
						_ = grpc.SetTrailer(ctx, tt.trailer)
						if code == codes.OK {
							return "", nil // a status of a success has no details
						}
						st, err := status.New(code, "no").WithDetails(tt.details...)
						if err != nil {
							return "", err
						}
						return "", st.Err()
					}}).start(t)
					retries, recorder := retrying(attempts)
					conn := dial(t, s.address, retries.DialOptions()...)
					_, err := call(t.Context(), conn, method, "")
					assert.Equal(t, code, status.Code(err))
					if !tt.want[i] {
						assert.Equal(t, 1, s.count())
						assert.Empty(t, recorder.Waits())
						return
					}
					assert.Equal(t, attempts, s.count())
					waits := recorder.Waits()
					require.Len(t, waits, attempts-1)
					for _, wait := range waits {
						assert.GreaterOrEqual(t, wait, tt.wait)
						if tt.exact {
							assert.Equal(t, tt.wait, wait)
						}
					}
				})
			}
		}
	}
}

// TestDetails looks at refusals with single details.
func TestDetails(t *testing.T) {
	t.Parallel()
	info := func(d *durationpb.Duration) protoadapt.MessageV1 { return &errdetails.RetryInfo{RetryDelay: d} }
	reason := func(reason string) protoadapt.MessageV1 {
		return &errdetails.ErrorInfo{Reason: reason, Domain: "googleapis.com"}
	}
	daily := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{QuotaId: "RequestsPerDayPerProject"}}}
	for _, tt := range []struct {
		name    string
		code    codes.Code
		details []protoadapt.MessageV1
		want    int // attempts
	}{
		{"a quota that says nothing", codes.ResourceExhausted, []protoadapt.MessageV1{&errdetails.QuotaFailure{}}, 1},
		{"quota with a time", codes.ResourceExhausted, []protoadapt.MessageV1{&errdetails.QuotaFailure{}, info(durationpb.New(1))}, attempts},
		{"info without a time", codes.ResourceExhausted, []protoadapt.MessageV1{info(nil)}, 1},
		{"info with an invalid time", codes.ResourceExhausted, []protoadapt.MessageV1{info(&durationpb.Duration{Seconds: 1, Nanos: -1})}, 1},
		{"info that is negative", codes.ResourceExhausted, []protoadapt.MessageV1{info(durationpb.New(-time.Hour))}, attempts},
		{"a rate limit", codes.ResourceExhausted, []protoadapt.MessageV1{reason("RATE_LIMIT_EXCEEDED")}, attempts},
		{"a rate limit that denies", codes.PermissionDenied, []protoadapt.MessageV1{reason("RATE_LIMIT_EXCEEDED")}, attempts},
		{"denied", codes.PermissionDenied, []protoadapt.MessageV1{reason("IAM_PERMISSION_DENIED")}, 1},
		{"denied with a time", codes.PermissionDenied, []protoadapt.MessageV1{info(durationpb.New(1))}, 1},
		{"used up for the day", codes.ResourceExhausted, []protoadapt.MessageV1{daily, info(durationpb.New(1))}, 1},
		{"info beyond MaxRetryAfter", codes.ResourceExhausted, []protoadapt.MessageV1{info(durationpb.New(time.Hour))}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&server{unary: func(context.Context, int, string) (string, error) {
				st, err := status.New(tt.code, "no").WithDetails(tt.details...)
				if err != nil {
					return "", err
				}
				return "", st.Err()
			}}).start(t)
			retries, _ := retrying(attempts)
			conn := dial(t, s.address, retries.DialOptions()...)
			_, err := call(t.Context(), conn, submit, "")
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.want, s.count())
			assert.Len(t, status.Convert(err).Details(), len(tt.details), "details reach the caller")
		})
	}
}

// TestRootKnowsStatuses checks that retry.Classify, which does not import gRPC, says about
// a status what this package says of an operation, but for two codes that may stand for a broken
// connection, for codes that gRPC does not know, and for what aborted proves of a transaction.
func TestRootKnowsStatuses(t *testing.T) {
	t.Parallel()
	for code := codes.Canceled; code <= codes.Unauthenticated+2; code++ {
		plain := status.New(code, "x")
		withInfo := testkit.Must(plain.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(5 * time.Second)}))(t)
		for _, s := range []*status.Status{plain, withInfo} {
			err := fmt.Errorf("x: %w", s.Err())
			want, got := retrygrpc.Classify(err), retry.Classify(err)
			switch {
			case code == codes.Unknown, code == codes.Internal:
				want.Class = retry.Unknown
			case code == codes.Aborted:
				want.NotApplied = false
			case code > codes.Unauthenticated:
				want = retry.Verdict{}
			}
			assert.Equal(t, want, got, "%v", s)
		}
	}
	for _, classify := range []retry.Classifier{retrygrpc.Classify, retry.Classify} { // grpc-go, grpc-java
		for _, message := range []string{"grpc: received message larger than max (9 vs. 8)", "gRPC message exceeds maximum size 8: 9"} {
			assert.Equal(t, retry.Final, classify(status.Error(codes.ResourceExhausted, message)).Class, message)
		}
	}
}

// wait returns a detail with a hint.
func wait(t *testing.T, d time.Duration) *anypb.Any {
	t.Helper()
	return testkit.Must(anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)}))(t)
}

func detailed(details ...*anypb.Any) error {
	return status.FromProto(&spb.Status{Code: int32(codes.Unavailable), Message: "no", Details: details}).Err()
}

// A server can send millions of details. The first hundred are read.
func TestManyDetails(t *testing.T) {
	t.Parallel()
	short, long := wait(t, time.Second), wait(t, time.Minute)
	most := slices.Repeat([]*anypb.Any{short}, 99)
	assert.Equal(t, time.Minute, retrygrpc.Classify(detailed(append(most, long)...)).After)
	for _, classify := range []retry.Classifier{retrygrpc.Classify, retry.Classify} {
		assert.Equal(t, time.Second, classify(detailed(append(most, short, long)...)).After)
	}
}

// What a server sends makes no work that grows faster than what it has sent.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/no.Such", Value: []byte("x")}
	for name, build := range map[string]func(n int) error{
		"hints":   func(n int) error { return detailed(slices.Repeat([]*anypb.Any{wait(t, 1)}, n/50)...) },
		"unknown": func(n int) error { return detailed(slices.Repeat([]*anypb.Any{unknown}, n/30)...) },
		"a long hint": func(n int) error {
			return detailed(&anypb.Any{TypeUrl: wait(t, 1).GetTypeUrl(), Value: slices.Repeat(wait(t, 1).GetValue(), n/4)})
		},
		"a long type":    func(n int) error { return detailed(&anypb.Any{TypeUrl: strings.Repeat("type.googleapis.com/", n/20)}) },
		"a long message": func(n int) error { return status.Error(codes.Internal, strings.Repeat("stream terminated ", n/18)) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, func(err error) { _ = retrygrpc.Classify(err) }, build)
		})
	}
}

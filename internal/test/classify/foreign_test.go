package classify_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The types below have the methods and fields of foreign errors. The modules that have
// the real ones test those: retrygrpc, retryconnect, retrykube, retryamqp, and clientstest.

type rpcCode uint32

type rpcStatus struct {
	code    rpcCode
	details []any
}

func (s *rpcStatus) Code() rpcCode  { return s.code }
func (s *rpcStatus) Details() []any { return s.details }

type rpcDelay time.Duration

func (d rpcDelay) AsDuration() time.Duration { return time.Duration(d) }

type rpcRetryInfo struct{ delay rpcDelay }

func (i *rpcRetryInfo) GetRetryDelay() rpcDelay { return i.delay }

type rpcError struct{ status *rpcStatus }

func (rpcError) Error() string            { return "rpc" }
func (e rpcError) GRPCStatus() *rpcStatus { return e.status }

type (
	kubeDetails struct{ RetryAfterSeconds int32 }
	kubeReason  string
	kubeStatus  struct {
		Code    int32
		Reason  kubeReason
		Details *kubeDetails
	}
	kubeError struct{ status kubeStatus }
)

func (*kubeError) Error() string        { return "kube" }
func (e *kubeError) Status() kubeStatus { return e.status }

type (
	fieldError struct {
		Text       string
		StatusCode int
	}
	response      struct{ StatusCode int }
	responseError struct{ Response *response }
	embeddedError struct{ *response }
	otherStatus   struct{}
)

func (*fieldError) Error() string    { return "field" }
func (responseError) Error() string  { return "response" }
func (*embeddedError) Error() string { return "embedded" }
func (otherStatus) Error() string    { return "other" }
func (otherStatus) Status() string   { return "404" }

type oddError struct{}

func (oddError) Error() string         { return "odd" }
func (oddError) GRPCStatus(int) int    { return 5 }
func (oddError) Status() (int, string) { return 404, "" }

type panickingStatusError struct{}

func (panickingStatusError) Error() string          { return "panics" }
func (panickingStatusError) GRPCStatus() *rpcStatus { panic("method") }

func TestForeignErrors(t *testing.T) {
	t.Parallel()
	rpc := func(code rpcCode, details ...any) error { return rpcError{&rpcStatus{code, details}} }
	info := &rpcRetryInfo{rpcDelay(aWhile)}
	kube := func(code int32, details *kubeDetails) error {
		return &kubeError{kubeStatus{Code: code, Reason: "reason", Details: details}}
	}
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"gRPC, OK", rpc(0), abstains},
		{"gRPC, not found", rpc(5), wantFinal("grpc_not_found")},
		{"gRPC, unknown", rpc(2), retry.Verdict{Category: "grpc_unknown"}},
		{"gRPC, aborted", rpc(10), mayRetry("grpc_aborted")},
		{"gRPC, unavailable", rpc(14), mayRetry("grpc_unavailable")},
		{"gRPC, unavailable for a while", rpc(14, "x", info), hinted(canLimit("grpc_unavailable"))},
		{"gRPC, exhausted", rpc(8), mayLimit("grpc_resource_exhausted")},
		{"gRPC, exhausted for a while", rpc(8, nil, info), hinted(canLimit("grpc_resource_exhausted"))},
		{"gRPC, not found for a while", rpc(5, info), wantFinal("grpc_not_found")},
		{"gRPC, a code of the future", rpc(17), abstains},
		{"gRPC, the largest code", rpc(1<<32 - 1), abstains},
		{"gRPC, no status", rpcError{}, abstains},
		{"a method that panics", panickingStatusError{}, abstains},
		{"methods of other shapes", oddError{}, abstains},
		{"a Status that is none", otherStatus{}, abstains},

		{"Kubernetes, not found", kube(404, nil), wantFinal("http_404")},
		{"Kubernetes, conflict", kube(409, &kubeDetails{}), wantFinal("http_409")},
		{"Kubernetes, overloaded", kube(503, nil), mayRetry("http_503")},
		{"Kubernetes, limited", kube(429, &kubeDetails{int32(aWhile / time.Second)}), hinted(canLimit("http_429"))},
		{"Kubernetes, a hint below 0", kube(429, &kubeDetails{-1}), canLimit("http_429")},
		{"Kubernetes, no code", kube(0, nil), abstains},

		{"a field, not found", &fieldError{StatusCode: 404}, wantFinal("http_404")},
		{"a field, overloaded", &fieldError{StatusCode: 503}, mayRetry("http_503")},
		{"a field, not an error", &fieldError{StatusCode: 200}, abstains},
		{"a field, not a status", &fieldError{StatusCode: 1 << 20}, abstains},
		{"a response", responseError{&response{StatusCode: 502}}, mayRetry("http_502")},
		{"a response, nil", responseError{}, abstains},
		{"an embedded response", &embeddedError{&response{StatusCode: 404}}, wantFinal("http_404")},
		{"an embedded response, nil", &embeddedError{}, abstains},
		{"nil", (*fieldError)(nil), abstains},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
	assert.Equal(t, wantFinal(""), retry.Classify(retry.MarkFinal(rpc(14))))
	assert.Equal(t, wantFinal("grpc_not_found"), retry.Classify(errors.Join(errNobody, rpc(5))))
}

// Errors whose fields lead in a circle, which Unwrap does not show.
type (
	roundError struct{ Err error }
	aboutError struct{ Err error }
)

func (roundError) Error() string { return "round" }
func (aboutError) Error() string { return "about" }

func TestClassifyCircleOfFields(t *testing.T) {
	t.Parallel()
	a, b := &roundError{}, &aboutError{}
	a.Err, b.Err = b, a
	assert.Zero(t, retry.Classify(a))
}

// The exit code 2 is a 512 in the field status of an os.ProcessState.
func TestExitCodesAreNoStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"1", "2", "75", "255"} {
		err := exec.CommandContext(t.Context(), "sh", "-c", "exit "+code).Run()
		require.Error(t, err)
		assert.Zero(t, retry.Classify(err), code)
	}
}

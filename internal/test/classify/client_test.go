package classify_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os/exec"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The types below have the shapes of the errors of clients: the real ones are in clientstest.

type (
	headerError struct { // googleapi
		StatusCode int
		Header     http.Header
		Errors     []struct{ Reason string }
	}
	exchangeError struct { // go-github, openai-go, godo, go-gitlab
		Code             string
		DocumentationURL string
		Response         *http.Response
	}
	rawResponseError struct { // azcore
		ErrorCode   string
		StatusCode  int
		RawResponse *http.Response
	}
	lastResponse struct{ LastResponse *struct{ Header http.Header } }
	paymentCode  string
	paymentError struct { // stripe-go
		lastResponse
		Code           paymentCode
		HTTPStatusCode int
	}
	wrappedResponse struct{ *http.Response } // smithy
	sdkError        struct{ Response *wrappedResponse }
	restyError      struct {
		Response *struct{ RawResponse *http.Response }
	}
	anyCodeError struct { // go-openai
		Code           any
		Type           string
		HTTPStatusCode int
	}
	pointedCodeError struct { // generated clients
		Code   *string
		Status int
	}
	detailedError struct { // genai, googleapi
		StatusCode int
		Details    []map[string]any
	}
	statusMethodError struct {
		status int
		header func() http.Header
	}
	responseMethodError struct{ response *http.Response }
	codeMethodError     struct { // aws-sdk-go, alibaba-cloud-sdk-go
		code   string
		status int
	}

	RateLimitError      struct{ Response *http.Response }
	AbuseRateLimitError struct{ Response *http.Response }
	RateLimitedError    struct{ RetryAfter time.Duration }
	waitError           struct {
		StatusCode int
		RetryAfter *time.Duration
	}
	secondsError     struct{ Status, RetryAfter int }
	anyResponseError struct{ Response any }

	// of clients that the field has shown.
	integerError  struct{ Code int64 }                // binance, go-ovh, jsonrpc2
	APIError      struct{ Code int }                  // go-ovh
	StatusError   int                                 // gobwas/ws
	ClosedError   struct{ Code uint16 }               // gobwas/ws, gws
	hiddenStatus  struct{ statusCode int }            // newrelic
	oauthError    struct{ ErrorType string }          // zitadel/oidc
	graphError    struct{ Extensions map[string]any } // gqlparser
	hopefulError  struct{ Temporary, Fault bool }     // goa
	derivedError  struct{ DerivedFromError error }    // weaviate
	fieldsError   map[byte]string                     // pgdriver
	registryError struct {
		StatusCode int
		Errors     []struct{ Code string }
	}
	ThingNotFoundError    struct{}
	UnexpectedStatusError struct{ got int }
	WrapsNotFoundError    struct{ error }

	pointedStatus       struct{ StatusCode *int }     // tea, azure-devops-go-api
	statusLine          struct{ Status string }       // go-bitbucket
	GenericOpenAPIError struct{ error string }        // of a generator
	matrixError         struct{ ErrCode string }      // mautrix
	innerFields         struct{ code, status string } // openfeature
	respError           struct{ Resp *http.Response } // of many
	namedCode           uint8
	namedError          struct{ Code namedCode } // of any client with an enumeration
	namedMethodError    struct{ namedCode }      // go-coap
	queryError          struct {
		ErrorCode            int
		ErrorName, ErrorType string
	} // trino
)

func (integerError) Error() string           { return "integer" }
func (*APIError) Error() string              { return "api" }
func (StatusError) Error() string            { return "status" }
func (ClosedError) Error() string            { return "closed" }
func (*hiddenStatus) Error() string          { return "hidden" }
func (*oauthError) Error() string            { return "oauth" }
func (*graphError) Error() string            { return "graph" }
func (*hopefulError) Error() string          { return "hopeful" }
func (*derivedError) Error() string          { return "derived" }
func (fieldsError) Error() string            { return "fields" }
func (e fieldsError) Field(name byte) string { return e[name] }
func (*registryError) Error() string         { return "registry" }
func (*UnexpectedStatusError) Error() string { return "unexpected" }
func (*ThingNotFoundError) Error() string    { return "thing" }
func (e *WrapsNotFoundError) Unwrap() error  { return e.error }
func (*pointedStatus) Error() string         { return "pointed" }
func (*statusLine) Error() string            { return "line" }
func (e GenericOpenAPIError) Error() string  { return e.error }
func (*matrixError) Error() string           { return "matrix" }
func (*innerFields) Error() string           { return "inner" }
func (*respError) Error() string             { return "resp" }
func (*namedError) Error() string            { return "named" }
func (namedMethodError) Error() string       { return "method" }
func (e namedMethodError) Code() namedCode   { return e.namedCode }
func (c namedCode) String() string {
	return []string{"Unknown", "NotFound", "TooManyRequests", "Unavailable"}[c] // panics for others
}
func (*queryError) Error() string { return "query" }

func (*headerError) Error() string                     { return "header" }
func (*exchangeError) Error() string                   { return "exchange" }
func (*rawResponseError) Error() string                { return "raw" }
func (*paymentError) Error() string                    { return "payment" }
func (*sdkError) Error() string                        { return "sdk" }
func (e *sdkError) HTTPStatusCode() int                { return e.Response.StatusCode }
func (*restyError) Error() string                      { return "resty" }
func (*anyCodeError) Error() string                    { return "any" }
func (pointedCodeError) Error() string                 { return "pointed" }
func (detailedError) Error() string                    { return "detailed" }
func (statusMethodError) Error() string                { return "status" }
func (e statusMethodError) StatusCode() int            { return e.status }
func (e statusMethodError) Header() http.Header        { return e.header() }
func (responseMethodError) Error() string              { return "response" }
func (e responseMethodError) StatusCode() int          { return e.response.StatusCode }
func (e responseMethodError) Response() *http.Response { return e.response }
func (codeMethodError) Error() string                  { return "code" }
func (e codeMethodError) Code() string                 { return e.code }
func (e codeMethodError) HttpStatus() int              { return e.status } //nolint:revive // alibaba-cloud-sdk-go
func (*RateLimitError) Error() string                  { return "limit" }
func (*AbuseRateLimitError) Error() string             { return "abuse" }
func (*RateLimitedError) Error() string                { return "limited" }
func (*RateLimitedError) Retryable() bool              { return true }
func (*waitError) Error() string                       { return "wait" }
func (*secondsError) Error() string                    { return "seconds" }
func (*anyResponseError) Error() string                { return "any response" }

// closed is the body of a response whose client has read it.
type closed struct{}

func (closed) Read([]byte) (int, error) { panic("the body of an error was read") }
func (closed) Close() error             { panic("the body of an error was closed") }

func TestErrorsOfClients(t *testing.T) {
	t.Parallel()
	wait := http.Header{"Retry-After": {"5"}}
	response := func(status int, header http.Header) *http.Response {
		return &http.Response{StatusCode: status, Header: header, Body: closed{}}
	}
	last := lastResponse{&struct{ Header http.Header }{wait}}
	code, after := "insufficient_quota", aWhile
	const secondary = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	reasons := func(reason string) []struct{ Reason string } { return []struct{ Reason string }{{"x"}, {reason}} }
	ptr := func(s string) *string { return &s }
	loop, gone := &anyResponseError{}, http.StatusGone
	loop.Response = &loop.Response
	minute := canLimit("http_403")
	minute.After = time.Minute
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"a header", &headerError{StatusCode: 429, Header: wait}, hinted(canLimit("http_429"))},
		{"a header, and the status needs it", &headerError{StatusCode: 403, Header: wait}, hinted(canLimit("http_403"))},
		{"a header, unavailable", &headerError{StatusCode: 503, Header: wait}, hinted(canRetry("http_503"))},
		{"a header, not found", &headerError{StatusCode: 404, Header: wait}, wantFinal("http_404")},
		{"a header, nil", &headerError{StatusCode: 429}, canLimit("http_429")},
		{"a header without a hint", &headerError{StatusCode: 403, Header: http.Header{}}, wantFinal("http_403")},
		{"a header that forbids retries", &headerError{StatusCode: 503, Header: http.Header{"X-Should-Retry": {"false"}}}, wantFinal("http_503")},
		{"a header of Envoy", &headerError{StatusCode: 404, Header: http.Header{"X-Envoy-Ratelimited": {"true"}}}, canLimit("http_404")},
		{"a quota that is used up", &headerError{StatusCode: 403, Header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"5"}}}, hinted(canLimit("http_403"))},
		{"a date", &headerError{StatusCode: 429, Header: http.Header{
			"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}, "Retry-After": {"Fri, 20 Nov 2026 12:00:05 GMT"},
		}}, hinted(canLimit("http_429"))},
		{"a date, without the server's", &headerError{StatusCode: 429, Header: http.Header{"Retry-After": {"Fri, 20 Nov 2026 12:00:05 GMT"}}}, canLimit("http_429")},
		{"a Unix time as Retry-After, without the server's", &headerError{
			StatusCode: 429, Header: http.Header{"Retry-After": {"1795176005"}},
		}, canLimit("http_429")},
		{"a Unix time", &headerError{StatusCode: 429, Header: http.Header{
			"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}, "X-Ratelimit-Reset": {"1795176005"},
		}}, hinted(canLimit("http_429"))},
		{"a Unix time, without the server's", &headerError{StatusCode: 429, Header: http.Header{"X-Ratelimit-Reset": {"1795176005"}}}, canLimit("http_429")},

		{"a reason", &headerError{StatusCode: 403, Errors: reasons("userRateLimitExceeded")}, canLimit("http_403")},
		{"a reason, used up", &headerError{StatusCode: 403, Errors: reasons("dailyLimitExceeded")}, wantFinal("quota_exhausted")},
		{"a reason, forbidden", &headerError{StatusCode: 403, Errors: reasons("insufficientPermissions")}, wantFinal("http_403")},
		{"a code", &exchangeError{Code: "insufficient_quota", Response: response(429, wait)}, wantFinal("quota_exhausted")},
		{"a code, a rate", &exchangeError{Code: "rate_limit_exceeded", Response: response(429, wait)}, hinted(canLimit("http_429"))},
		{"a page", &exchangeError{DocumentationURL: secondary, Response: response(403, nil)}, minute},
		{"a page, and a hint", &exchangeError{DocumentationURL: secondary, Response: response(403, wait)}, hinted(canLimit("http_403"))},
		{"a raw response", &rawResponseError{StatusCode: 429, RawResponse: response(429, wait)}, hinted(canLimit("http_429"))},
		{"a raw response alone", &rawResponseError{RawResponse: response(503, wait)}, hinted(canRetry("http_503"))},
		{"an error's code", &rawResponseError{StatusCode: 403, ErrorCode: "QuotaExceeded"}, wantFinal("quota_exhausted")},
		{"a payment", &paymentError{lastResponse: last, HTTPStatusCode: 429}, hinted(canLimit("http_429"))},
		{"a payment, locked", &paymentError{HTTPStatusCode: 429, Code: "lock_timeout"}, canLimit("http_429")},
		{"a payment, declined", &paymentError{HTTPStatusCode: 402, Code: "card_declined"}, wantFinal("http_402")},
		{"an embedded response", &sdkError{&wrappedResponse{response(429, wait)}}, hinted(canLimit("http_429"))},
		{"a response of a response", &restyError{&struct{ RawResponse *http.Response }{response(503, wait)}}, hinted(canRetry("http_503"))},
		{"a code of any type", &anyCodeError{Code: "insufficient_quota", HTTPStatusCode: 429}, wantFinal("quota_exhausted")},
		{"a number of any type", &anyCodeError{Code: 7, HTTPStatusCode: 429}, canLimit("http_429")},
		{"no code of any type", &anyCodeError{HTTPStatusCode: 429}, canLimit("http_429")},
		{"a pointer to a code", pointedCodeError{Code: &code, Status: 429}, wantFinal("quota_exhausted")},
		{"details", detailedError{429, []map[string]any{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s"}}}, hinted(canLimit("http_429"))},
		{"details of a day", detailedError{429, []map[string]any{{"violations": []any{map[string]any{"quotaId": "RequestsPerDay"}}}}}, wantFinal("quota_exhausted")},
		{"a method", statusMethodError{429, func() http.Header { return wait }}, hinted(canLimit("http_429"))},
		{"a method, nil", statusMethodError{429, func() http.Header { return nil }}, canLimit("http_429")},
		{"a method that panics", statusMethodError{429, func() http.Header { panic("header") }}, canLimit("http_429")},
		{"a method with a response", responseMethodError{response(429, wait)}, hinted(canLimit("http_429"))},

		{"a method with a code", codeMethodError{"ThrottlingException", 400}, mayLimit("aws_ThrottlingException")},
		{"a method with a code and no status", codeMethodError{"Throttling", 0}, mayLimit("aws_Throttling")},
		{"a method with a code of another kind", codeMethodError{"Throttling.User", 400}, canLimit("http_400")},
		{"a method with an unknown code", codeMethodError{"NotThere", 503}, mayRetry("http_503")},
		{"a method with an unknown code and no status", codeMethodError{"NotThere", 0}, abstains},

		{"a limit by its name", &RateLimitError{response(403, nil)}, canLimit("http_403")},
		{"a limit by its name alone", &RateLimitError{}, canLimit("rate_limited")},
		{"a secondary limit by its name", &AbuseRateLimitError{response(403, nil)}, minute},
		{"a secondary limit, and a hint", &AbuseRateLimitError{response(403, wait)}, hinted(canLimit("http_403"))},
		{"a limit that says it is retryable", &RateLimitedError{aWhile}, hinted(canLimit("rate_limited"))},
		{"a field", &waitError{StatusCode: 429, RetryAfter: &after}, hinted(canLimit("http_429"))},
		{"a field that is nil", &waitError{StatusCode: 429}, canLimit("http_429")},
		{"a field without a status", &waitError{RetryAfter: &after}, hinted(mayLimit(""))},
		{"a field in an unknown unit", &secondsError{429, 5}, canLimit("http_429")},

		{"a response of any type", &anyResponseError{response(503, wait)}, hinted(canRetry("http_503"))},
		{"a response that is itself", loop, abstains},
		{"a response whose header is nil", &anyResponseError{response(503, nil)}, mayRetry("http_503")},

		{"an integer, not found", integerError{404}, wantFinal("http_404")},
		{"an integer, limited", integerError{429}, canLimit("http_429")},
		{"an integer of another kind", integerError{412}, abstains},
		{"an integer of an API", &APIError{412}, wantFinal("http_412")},
		{"an integer itself", StatusError(401), wantFinal("http_401")},
		{"JSON-RPC, no method", integerError{-32601}, wantFinal("jsonrpc_32601")},
		{"JSON-RPC, internal", integerError{-32603}, retry.Verdict{Category: "jsonrpc_32603"}},
		{"JSON-RPC, of a server", integerError{-32001}, abstains},
		{"a WebSocket's, a policy", ClosedError{1008}, wantFinal("ws_1008")},
		{"a WebSocket's, later", &ClosedError{1013}, mayLimit("ws_1013")},
		{"a status in a field of its own", &hiddenStatus{400}, wantFinal("http_400")},
		{"a status that is not the expected one", &UnexpectedStatusError{404}, wantFinal("http_404")},
		{"OAuth", &oauthError{"invalid_grant"}, wantFinal("permission")},
		{"OAuth, the server", &oauthError{"temporarily_unavailable"}, mayRetry("temporary")},
		{"GraphQL", &graphError{map[string]any{"code": "FORBIDDEN"}}, wantFinal("permission")},
		{"GraphQL, limited", &graphError{map[string]any{"code": "THROTTLED"}}, canLimit("rate_limited")},
		{"GraphQL, no code", &graphError{map[string]any{"code": 7}}, abstains},
		{"a code with dots", pointedCodeError{Code: ptr("AuthFailure.SignatureFailure")}, wantFinal("permission")},
		{"a code with dots, limited", pointedCodeError{Code: ptr("RequestLimitExceeded.Uin"), Status: 400}, mayLimit("aws_RequestLimitExceeded")},
		{"a hope", &hopefulError{Temporary: true}, mayRetry("temporary")},
		{"no hope says nothing", &hopefulError{Fault: true}, abstains},
		{"a cause of another name", &derivedError{x509.UnknownAuthorityError{}}, wantFinal("tls_cert")},
		{"fields of PostgreSQL", fieldsError{'C': "23505"}, wantFinal("sql_23505")},
		{"a list of codes", &registryError{400, []struct{ Code string }{{"BLOB_UPLOAD_INVALID"}}}, mayRetry("http_400")},
		{"a name", &ThingNotFoundError{}, wantFinal("not_found")},
		{"a name, and a cause that has only a text", &WrapsNotFoundError{errNobody}, wantFinal("not_found")},
		{"a name, and no cause", &WrapsNotFoundError{}, wantFinal("not_found")},
		{"a name, and a cause with a text that is known", &WrapsNotFoundError{io.ErrUnexpectedEOF}, mayRetry("eof")},
		{"a name, and a cause that says more", &WrapsNotFoundError{context.DeadlineExceeded}, mayRetry("timeout")},

		{"a pointer to a status", &pointedStatus{new(int)}, abstains},
		{"a pointer to a status that is one", &pointedStatus{&gone}, wantFinal("http_410")},
		{"a pointer to no status", &pointedStatus{}, abstains},
		{"a status line", &statusLine{"429 Too Many Requests"}, canLimit("http_429")},
		{"a status line of digits", &statusLine{"503"}, mayRetry("http_503")},
		{"a status of words", &statusLine{"FAILED"}, abstains},
		{"a status of more digits", &statusLine{"4040"}, abstains},
		{"a status of a sign", &statusLine{"+40 x"}, abstains},
		{"a generated client", GenericOpenAPIError{"404 Not Found"}, wantFinal("http_404")},
		{"a generated client, other words", GenericOpenAPIError{"json: cut"}, abstains},
		{"a status line alone", errors.New("404 Not Found"), wantFinal("http_404")},
		{"a status line alone, limited", fmt.Errorf("%d Too Many Requests", 429), mayLimit("http_429")},
		{"a status line and more", errors.New("404 Not Found: x"), abstains},
		{"not found, of anybody", errors.New("not found"), abstains},
		{"a code of Matrix", &matrixError{"M_LIMIT_EXCEEDED"}, abstains},
		{"a code of Matrix, of OAuth", &matrixError{"invalid_grant"}, wantFinal("permission")},
		{"a code of its own", &innerFields{code: "FLAG_NOT_FOUND"}, wantFinal("not_found")},
		{"a code of its own that says nothing", &innerFields{code: "GENERAL", status: "FAILED"}, abstains},
		{"a status of its own", &innerFields{status: "503 Service Unavailable"}, mayRetry("http_503")},
		{"a response of a short name", &respError{response(429, wait)}, hinted(canLimit("http_429"))},
		{"the name of a code", &namedError{1}, wantFinal("not_found")},
		{"the name of a code, limited", &namedError{2}, canLimit("rate_limited")},
		{"the name of a code that may be any", &namedError{3}, abstains},
		{"the name of a code that panics", &namedError{4}, abstains},
		{"the name of a method's code", namedMethodError{1}, wantFinal("not_found")},
		{"the name of a method's code that panics", &namedMethodError{4}, abstains},
		{"a second code", &queryError{1, "SYNTAX_ERROR", "USER_ERROR"}, wantFinal("invalid")},
		{"a second code, of the server", &queryError{65536, "GENERIC_INTERNAL_ERROR", "INTERNAL_ERROR"}, abstains},

		{"nil, a header", (*headerError)(nil), abstains},
		{"nil, a response", (*exchangeError)(nil), abstains},
		{"nil, a response inside", &exchangeError{}, abstains},
		{"nil, an embedded response", &sdkError{}, abstains},
		{"nil in an embedded response", &sdkError{&wrappedResponse{}}, abstains},
		{"nil, embedded", (*paymentError)(nil), abstains},
		{"nil, a last response", &paymentError{HTTPStatusCode: 503}, mayRetry("http_503")},
		{"nil, by its name", (*RateLimitError)(nil), canLimit("rate_limited")},
		{"nil, a method's response", responseMethodError{}, abstains},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// What is known of types is bounded, and types are many only if a program makes them.
func TestManyTypesOfResponses(t *testing.T) {
	t.Parallel()
	for i := range 1200 {
		response := reflect.New(reflect.StructOf([]reflect.StructField{
			{Name: "X" + strconv.Itoa(i), Type: reflect.TypeFor[string]()},
			{Name: "StatusCode", Type: reflect.TypeFor[int]()},
		}))
		response.Elem().Field(1).SetInt(503)
		for range 2 {
			assert.Equal(t, mayRetry("http_503"), retry.Classify(&anyResponseError{response.Interface()}))
		}
	}
}

// apiError is gax's: it has the status and wraps the error that has the reason.
type apiError struct {
	status int
	reason string
	cause  error
}

func (*apiError) Error() string    { return "api" }
func (e *apiError) HTTPCode() int  { return e.status }
func (e *apiError) Reason() string { return e.reason }
func (e *apiError) Unwrap() error  { return e.cause }

func TestReasonsOnAChain(t *testing.T) {
	t.Parallel()
	limit := &headerError{StatusCode: 403, Errors: []struct{ Reason string }{{"rateLimitExceeded"}}}
	assert.Equal(t, canLimit("http_403"), retry.Classify(&apiError{403, "", limit}), "the inner error says which refusal")
	assert.Equal(t, wantFinal("http_403"), retry.Classify(&apiError{403, "", errNobody}))
	assert.Equal(t, canLimit("http_403"), retry.Classify(&apiError{403, "RATE_LIMIT_EXCEEDED", errNobody}))
	assert.Equal(t, wantFinal("http_404"), retry.Classify(&apiError{404, "", limit}))
}

// A server's first digit says whether a reply is for good.
//
// https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1
func TestRepliesOfMailServers(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]func(string) retry.Verdict{
		421: canRetry, 425: canRetry, 426: mayRetry, 450: canRetry, 451: canRetry, 452: canRetry, 454: canRetry, 499: canRetry,
		500: wantFinal, 521: wantFinal, 530: wantFinal, 535: wantFinal, 550: wantFinal, 552: wantFinal, 554: wantFinal, 599: wantFinal,
	} {
		err := &textproto.Error{Code: code, Msg: "reply"}
		assertClassified(t, want("reply_"+strconv.Itoa(code)), err)
	}
	for _, code := range []int{0, -450, 250, 354, 399, 600, 4500} {
		assertClassified(t, abstains, &textproto.Error{Code: code})
	}
	assertClassified(t, abstains, (*textproto.Error)(nil))
	assertClassified(t, abstains, textproto.ProtocolError("short response"))
}

// The unsaid fields of an error, and the shapes that are none, cost no allocation.
func TestAllocsOfClientsErrors(t *testing.T) { //nolint:paralleltest // It measures.
	for _, err := range []error{
		&headerError{StatusCode: 503}, &exchangeError{}, &paymentError{HTTPStatusCode: 500}, &struct{ error }{errNobody}, errNobody, &textproto.Error{Code: 250},
	} {
		assert.Zero(t, testing.AllocsPerRun(200, func() { _ = retry.Classify(err) }), "%T", err)
	}
	require.NotPanics(t, func() { _ = retry.Classify(fmt.Errorf("x: %w", (*headerError)(nil))) })
}

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
	for _, tt := range []struct {
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
	} {
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

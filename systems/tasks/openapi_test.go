package main

import (
	"bytes"
	_ "embed"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

//go:embed openapi.json
var openAPIText []byte

// described is the API as the document has it.
var described = sync.OnceValues(func() (routers.Router, error) {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(openAPIText)
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// describes asserts that a request and its answer are as the document says. A request that
// is refused need not be.
func describes(t *testing.T, req *http.Request, body string, resp *http.Response, answer string) {
	t.Helper()
	router, err := described()
	require.NoError(t, err)
	req.URL.Host, req.URL.Scheme = "", ""
	route, params, err := router.FindRoute(req)
	if err != nil {
		assert.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, resp.StatusCode, "%v: %v", req.URL, err)
		return
	}
	req.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}
	if resp.StatusCode < http.StatusBadRequest {
		assert.NoError(t, openapi3filter.ValidateRequest(t.Context(), in), body)
	}
	assert.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewBufferString(answer)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}), answer)
}

// The document is valid, is served, and has what there are handlers for and nothing else.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.SQLite))
	assert.JSONEq(t, string(openAPIText), e.text("/openapi.json"))
	doc, err := openapi3.NewLoader().LoadFromData(openAPIText)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	var operations []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			operations = append(operations, method+" "+path)
			mux, ok := e.handler().(*http.ServeMux)
			require.True(t, ok)
			_, pattern := mux.Handler(httptest.NewRequest(method, strings.ReplaceAll(path, "{id}", "x"), http.NoBody))
			assert.NotEmpty(t, pattern, "%s %s", method, path)
		}
	}
	for _, pattern := range handled(t) {
		assert.Contains(t, operations, pattern)
	}
}

//go:embed api.go
var apiSource string

// handled are the patterns in api.go.
func handled(t *testing.T) (patterns []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`"((?:GET|POST|PATCH) /[^"]*)"`).FindAllStringSubmatch(apiSource, -1) {
		if !strings.HasSuffix(match[1], "/") { // cancel, pause and unpause
			patterns = append(patterns, match[1])
		}
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(patterns))), 9)
	return patterns
}

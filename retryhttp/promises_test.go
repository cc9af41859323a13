package retryhttp_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The defects of other clients that were collected before this package was written
// are numbered B1 to B36. Each has a test in a promises file that fails on a client
// with that defect, or a line in promisedElsewhere.

// promisedElsewhere has tests in other packages of promises that are not about
// HTTP.
var promisedElsewhere = []struct{ row, file, test, why string }{
	{"B16", "../classify_walk_test.go", "TestClassifyDNS", "names that are not found, and resolvers in trouble"},
	{"B17", "../classify_test.go", "TestErrnosOnDialing", "every errno, after dialing and later"},
	{"B24", "../internal/test/promises/hints_test.go", "TestHintOverflow", "hints in errors"},
	{"B26", "answer_test.go", "TestParseHint", "milliseconds that do not fit"},
	{"B31", "../classify_test.go", "TestErrnosOfWindows", "the numbers of Winsock, on every system"},
	{"B32", "../classify_test.go", "TestMethodsThatAreNoConvention", "Recoverable"},
	{"B36", "../internal/test/promises/delay_test.go", "TestAttemptHuge", "backoffs without end"},
}

// disputed has rows in which the other client contradicts itself: whether AWS waits
// 50ms or 1s before it polls again.
var disputed = []string{"B18"}

func testsIn(t *testing.T, file string) map[string]*ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	tests := map[string]*ast.FuncDecl{}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests[f.Name.Name] = f
		}
	}
	return tests
}

func TestPeersHaveTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("promises_*_test.go")
	require.NoError(t, err)
	covered := map[string]bool{}
	for _, row := range disputed {
		covered[row] = true
	}
	for _, e := range promisedElsewhere {
		assert.Contains(t, testsIn(t, e.file), e.test, "%s: %s", e.row, e.why)
		covered[e.row] = true
	}
	name := regexp.MustCompile(`^TestB0?([0-9]+)_`)
	for _, file := range files {
		for test := range testsIn(t, file) {
			if m := name.FindStringSubmatch(test); m != nil {
				covered["B"+m[1]] = true
			}
		}
	}
	for n := 1; n <= 36; n++ {
		assert.Contains(t, covered, fmt.Sprint("B", n))
	}
}

// T-32 to T-38 are about HTTP.
func TestPeersHaveTestsForTheList(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	docs := strings.Builder{}
	for _, file := range files {
		if strings.HasPrefix(file, "promises_") {
			continue
		}
		for _, test := range testsIn(t, file) {
			docs.WriteString(test.Doc.Text())
		}
	}
	for n := 32; n <= 38; n++ {
		assert.Contains(t, docs.String(), fmt.Sprintf("T-%d", n))
	}
}

// countingBase counts the attempts that get to a transport.
type countingBase struct {
	http.RoundTripper
	attempts atomic.Int64
}

func (b *countingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.attempts.Add(1)
	return b.RoundTripper.RoundTrip(req)
}

func counting(t *testing.T, base *http.Transport) *countingBase {
	t.Helper()
	return &countingBase{RoundTripper: provoke.Transport(t, base)}
}

// answering answers with a status, without a network.
func answering(code int, keysAndValues ...string) *countingBase {
	return &countingBase{RoundTripper: roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: headers(keysAndValues...), Body: http.NoBody, Request: req}, nil
	})}
}

// failing fails, without a network.
func failing(err error) *countingBase {
	return &countingBase{RoundTripper: roundTripper(func(*http.Request) (*http.Response, error) { return nil, err })}
}

// undialed is a transport of net/http that cannot connect.
func undialed(err error) *countingBase {
	return &countingBase{RoundTripper: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, err },
	}}
}

// attemptsOfThree returns how many attempts a request gets out of three.
func attemptsOfThree(t *testing.T, base *countingBase, method, target string, keysAndValues ...string) int {
	t.Helper()
	p := atOnce(3)
	p.Clock = &retrytest.Clock{}
	c := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}}
	before := base.attempts.Load()
	resp, err := c.Do(request(t, method, target, nil, keysAndValues...))
	if err == nil {
		_ = resp.Body.Close()
	}
	return int(base.attempts.Load() - before)
}

// waitsAfter returns the waits after an answer of a server, and how many there
// are of it.
func waitsAfter(t *testing.T, p *retry.Policy, code int, keysAndValues ...string) (waits []time.Duration, resp *http.Response) {
	t.Helper()
	clock := retrytest.NewClock(noon)
	p.Clock = clock
	transport := &retryhttp.Transport{Base: answering(code, keysAndValues...), Policy: p, Budget: retryhttp.NoBudget}
	resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return clock.Sleeps(), resp
}

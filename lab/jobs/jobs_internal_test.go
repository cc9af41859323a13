package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var update = flag.Bool("update", false, "write docs/evidence/jobs.md")

// job is a job and those who do it.
type job struct {
	name, what string
	versions   []version
}

// version does a job in its way.
type version struct {
	library string
	check   func(*testing.T)
}

const ours = "retry"

// versionsOf returns versions that are held to the same check.
func versionsOf[F any](check func(*testing.T, F), byLibrary map[string]F) []version {
	var versions []version
	for library, do := range byLibrary {
		versions = append(versions, version{library, func(t *testing.T) { t.Helper(); check(t, do) }})
	}
	return versions
}

// all are the jobs of examples/jobs.
var all = []job{
	{"HTTPClient", "HTTP with a limit for the whole call", versionsOf(jobstest.HTTPClient, map[string]httpClient{
		ours: jobs.HTTPClient, "go-retryablehttp": retryablehttpHTTPClient, "failsafe-go": failsafeHTTPClient,
	})},
	{"Import", "many tasks, and how far they are", versionsOf(jobstest.Import, map[string]importer{
		ours: jobs.Import, "retry-go": retryGoImport,
	})},
	{"WithMockClock", "a test with a mock clock", versionsOf(checkMockClock, map[string]onMock{
		ours: func(ctx context.Context, mock *clock.Mock, op jobstest.Op) error {
			return jobs.WithMockClock(ctx, mock, op)
		},
		"retry-go": retryGoWithMockClock,
	})},
	{"Retry", "a test in a bubble of `testing/synctest`", versionsOf(jobstest.Retry, map[string]jobstest.Runner{
		ours: jobs.Retry, "retry-go": retryGoRetry, "backoff": backoffRetry, "go-retry": goRetryRetry,
		"k8s wait": k8sWaitRetry, "failsafe-go": failsafeRetry,
	})},
	{"Reconnect", "a connection that is made again for ever", versionsOf(jobstest.Reconnect, map[string]jobstest.Runner{
		ours: jobs.Reconnect, "retry-go": retryGoReconnect, "backoff": backoffReconnect, "k8s wait": k8sWaitReconnect,
	})},
	{"Poll", "until it is there, while real errors are retried", versionsOf(jobstest.Poll, map[string]poller{
		ours: jobs.Poll, "k8s wait": k8sWaitPoll,
	})},
	{"Reschedule", "a job whose state is a column", []version{
		{ours, func(t *testing.T) { t.Helper(); checkReschedule(t, jobs.Reschedule) }},
		{"k8s wait", func(t *testing.T) { t.Helper(); checkReschedule(t, k8sWaitReschedule) }},
	}},
	{"PerKind", "a limit and a wait for each kind of error", versionsOf(checkPerKind, map[string]jobstest.Runner{
		ours: jobs.PerKind, "retry-go": retryGoPerKind,
	})},
	{"AllErrors", "the number of the attempt, and all errors", versionsOf(jobstest.AllErrors, map[string]numbered{
		ours: jobs.AllErrors, "retry-go": retryGoAllErrors,
	})},
	{"Answer", "an error in a response with status 200", versionsOf(jobstest.Answer, map[string]answerer{
		ours: jobs.Answer, "retry-go": retryGoAnswer, "go-retryablehttp": retryablehttpAnswer,
	})},
	{"SigningClient", "every attempt is signed anew", versionsOf(jobstest.SigningClient, map[string]signer{
		ours: jobs.SigningClient, "go-retryablehttp": retryablehttpSigningClient,
	})},
	{"Throttled", "calls that share a throttle", versionsOf(jobstest.Throttled, map[string]func() jobstest.Runner{
		ours: func() jobstest.Runner { return jobs.Throttled() }, "retry-go": retryGoThrottled,
	})},
	{"ExactDelay", "the error knows how long to wait", versionsOf(checkExactDelay, map[string]jobstest.Runner{
		ours: jobs.ExactDelay, "retry-go": retryGoExactDelay, "failsafe-go": failsafeExactDelay,
	})},
	{"Command", "a command in a terminal", versionsOf(checkCommand, map[string]commander{
		ours: jobs.Command, "retry-go": retryGoCommand, "backoff": backoffCommand, "go-retry": goRetryCommand,
	})},
	{"Nested", "a policy around a policy", versionsOf(jobstest.Nested, map[string]jobstest.Runner{
		ours: jobs.Nested, "retry-go": retryGoNested, "backoff": backoffNested, "go-retry": goRetryNested,
		"failsafe-go": failsafeNested,
	})},
}

// lost are jobs that a peer does in fewer lines.
var lost = []job{
	{"Joined", "all errors in the one that is returned", versionsOf(jobstest.Joined, map[string]joiner{
		ours: oursJoined, "retry-go": retryGoJoined,
	})},
	{"Limited", "a limiter of your own, which is a function", versionsOf(jobstest.Limited, map[string]limited{
		ours: oursLimited, "retry-go": retryGoLimited,
	})},
	{"PlainPoll", "until it is there, and any error ends it", versionsOf(jobstest.PlainPoll, map[string]poller{
		ours: oursPlainPoll, "k8s wait": k8sWaitPlainPoll,
	})},
}

func checkMockClock(t *testing.T, do onMock) {
	t.Helper()
	jobstest.WithMockClock(t, clock.NewMock(), do)
}

func checkPerKind(t *testing.T, do jobstest.Runner) {
	t.Helper()
	jobstest.PerKind(t, jobs.ErrBusy, jobs.ErrConflict, jobs.ErrGone, do)
}

func checkExactDelay(t *testing.T, do jobstest.Runner) {
	t.Helper()
	jobstest.ExactDelay(t, func(d time.Duration) error { return &jobs.BusyError{Wait: d} }, do)
}

// checkCommand needs no more than a command that succeeds: what it writes is seen in the
// output of the test.
func checkCommand(t *testing.T, do commander) {
	t.Helper()
	require.NoError(t, do(t.Context(), "go", "env", "GOOS"))
}

// checkReschedule stores the state as JSON.
func checkReschedule[S any](t *testing.T, do func(S, error, time.Time) (S, time.Time, bool)) {
	t.Helper()
	column := []byte("{}")
	jobstest.Reschedule(t, func(failure error, now time.Time) (time.Time, bool) {
		var state S
		require.NoError(t, json.Unmarshal(column, &state))
		next, due, ended := do(state, failure, now)
		column = testkit.Must(json.Marshal(next))(t)
		return due, ended
	})
}

// TestJobs holds every version to what its job has to do.
func TestJobs(t *testing.T) {
	t.Parallel()
	for _, j := range slices.Concat(all, lost) {
		for _, v := range j.versions {
			t.Run(j.name+"/"+v.library, func(t *testing.T) {
				t.Parallel()
				v.check(t)
			})
		}
	}
}

// size is what a version takes.
type size struct{ lines, tokens int }

// prefixes are those of the functions of a library.
var prefixes = map[string]string{
	ours: "ours", "retry-go": "retryGo", "backoff": "backoff", "go-retry": "goRetry", "k8s wait": "k8sWait",
	"go-retryablehttp": "retryablehttp", "failsafe-go": "failsafe",
}

// sizes returns what each function takes: the lines of its body, without comments, and
// all lines of whatever has a name that begins with its name. Both are counted in tokens
// too, because lines can be long.
func sizes(t *testing.T) map[string]size {
	t.Helper()
	sizes := map[string]size{}
	for dir, prefix := range map[string]string{"../../examples/jobs": "ours", ".": ""} {
		names := testkit.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text := testkit.Must(os.ReadFile(name))(t)
			for i, line := range strings.Split(string(text), "\n") {
				assert.LessOrEqual(t, len(line), 120, "%s:%d: a line like that counts for two", name, i+1)
			}
			fset := token.NewFileSet()
			file := testkit.Must(parser.ParseFile(fset, name, text, parser.SkipObjectResolution))(t)
			offset := func(pos token.Pos) int { return fset.Position(pos).Offset }
			for _, decl := range file.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if decl.Recv == nil {
						body := text[offset(decl.Body.Lbrace)+1 : offset(decl.Body.Rbrace)]
						add(sizes, prefix+decl.Name.Name, body)
					} else {
						add(sizes, receiver(decl), text[offset(decl.Pos()):offset(decl.End())])
					}
				case *ast.GenDecl:
					if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok && prefix == "" {
						add(sizes, spec.Name.Name, text[offset(decl.Pos()):offset(decl.End())])
					}
				}
			}
		}
	}
	return sizes
}

func receiver(decl *ast.FuncDecl) string {
	if name, ok := decl.Recv.List[0].Type.(*ast.Ident); ok {
		return name.Name
	}
	return "" // an error of examples/jobs, which is given to every version
}

// add adds the size of code to that of name.
func add(sizes map[string]size, name string, code []byte) {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", -1, len(code)), code, nil, 0)
	n, lines := sizes[name], map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		n.tokens++
		for i := range 1 + bytes.Count([]byte(literal), []byte("\n")) {
			lines[fset.Position(pos).Line+i] = true
		}
	}
	n.lines += len(lines)
	sizes[name] = n
}

// of returns the size of a version, with its helpers.
func of(sizes map[string]size, library, job string) (total size) {
	for name, s := range sizes {
		if strings.HasPrefix(name, prefixes[library]+job) {
			total.lines += s.lines
			total.tokens += s.tokens
		}
	}
	return total
}

// TestLines compares the lines of all versions, and docs/evidence/jobs.md with them.
func TestLines(t *testing.T) {
	t.Parallel()
	sizes := sizes(t)
	for _, j := range all {
		own := of(sizes, ours, j.name)
		require.Positive(t, own.lines, j.name)
		for _, v := range j.versions {
			assert.LessOrEqual(t, own.lines, of(sizes, v.library, j.name).lines, "%s with %s", j.name, v.library)
		}
	}
	for _, j := range lost {
		shorter := slices.ContainsFunc(j.versions, func(v version) bool {
			return of(sizes, v.library, j.name).lines < of(sizes, ours, j.name).lines
		})
		assert.True(t, shorter, "%s is lost no more", j.name)
	}
	const name = "../../docs/evidence/jobs.md"
	page := page(sizes)
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(page), 0o644))
		return
	}
	assert.Equal(t, string(testkit.Must(os.ReadFile(name))(t)), page, "go test ./jobs -update")
}

const head = `# Fifteen jobs

Generated by ` + "`go test ./jobs -update`" + ` in lab/. Every version is held to the same checks,
those of [jobstest](../../examples/jobs/jobstest/jobstest.go). The lines are those between the braces of the function,
without comments, plus the types and methods that it needs; no line is longer than 120 characters. Tokens are in
parentheses, because they do not depend on how code is laid out. The code of the others is in
[lab/jobs](../../lab/jobs). retry-go is v5, backoff is v5.

What to read from it:

1. A library that is missing in a row cannot do the job without a loop of your own.
2. Fewer lines are not the aim: a line more may be a limit that the other version does not have.
3. All versions pass the same checks, so that the rows compare the same behaviour.
4. Compare tokens where the lines are nearly equal.
5. The second table has the jobs that others do in fewer lines.

| Job | What | retry | Others |
|---|---|---|---|
`

const middle = `
## Where others are shorter

retry-go returns the errors of all attempts as one, unasked, and asks a function about each retry. PollUntilContextTimeout
of k8s.io/apimachinery is made for a poll that any error ends.

| Job | What | retry | Others |
|---|---|---|---|
`

func page(sizes map[string]size) string {
	var b strings.Builder
	b.WriteString(head)
	for _, j := range all {
		b.WriteString(row(sizes, j, fmt.Sprintf("[%s](../../examples/jobs/jobs.go)", j.name)))
	}
	b.WriteString(middle)
	for _, j := range lost {
		b.WriteString(row(sizes, j, fmt.Sprintf("[%s](../../lab/jobs/ours.go)", j.name)))
	}
	return b.String()
}

func row(sizes map[string]size, j job, link string) string {
	others := slices.DeleteFunc(slices.Clone(j.versions), func(v version) bool { return v.library == ours })
	slices.SortFunc(others, func(a, b version) int {
		x, y := of(sizes, a.library, j.name), of(sizes, b.library, j.name)
		return cmp.Or(cmp.Compare(x.lines, y.lines), cmp.Compare(x.tokens, y.tokens), cmp.Compare(a.library, b.library))
	})
	var cells []string
	for _, v := range others {
		s := of(sizes, v.library, j.name)
		cells = append(cells, fmt.Sprintf("%s %d (%d)", v.library, s.lines, s.tokens))
	}
	own := of(sizes, ours, j.name)
	return fmt.Sprintf("| %s | %s | %d (%d) | %s |\n", link, j.what, own.lines, own.tokens, strings.Join(cells, ", "))
}

// The shapes of the jobs.
type (
	httpClient = func(http.RoundTripper) *http.Client
	importer   = func(context.Context, []string, func(context.Context, string) error, func(int, error)) error
	onMock     = func(context.Context, *clock.Mock, jobstest.Op) error
	poller     = func(context.Context, func(context.Context) (bool, error)) error
	numbered   = func(context.Context, func(context.Context, int) error) ([]error, error)
	joiner     = func(context.Context, func(context.Context, int) error) error
	answerer   = func(context.Context, *http.Client, string) (string, error)
	signer     = func(http.RoundTripper, func(*http.Request) error) *http.Client
	limited    = func(context.Context, func() bool, jobstest.Op) error
	commander  = func(context.Context, string, ...string) error
)

package why_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/why"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

const root = "../../../../"

// TestEveryWord asks about everything that the code can print. Each answer has a place on a page, and
// the Go in it compiles.
func TestEveryWord(t *testing.T) {
	t.Parallel()
	words := printed(t)
	require.Greater(t, len(words), 250)
	for _, word := range []string{
		"failed after 3 attempts", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", "X-RateLimit-Remaining: 0", "429", "http_429",
		"sql_40001", "exit_75", "conn_reset", "ERROR: deadlock detected (SQLSTATE 40P01)", "level=WARN category=dns_not_found",
		"retry: gave up (budget) after 2 attempts in 3s: exit status 75", "retry: not run again (stderr_auth): exit status 1",
		"retry.StopBudget", "io.EOF", "codes.Unavailable", "23505", "200", "409", "503",
		"HTTP 503", "oauth 401", "pgx: 42P05", "status code 502", "unexpected status: 504", "sqlstate 23505", "pq: deadlock detected", "Error 1205", "1213",
		"Error 1213 (40001): Deadlock found when trying to get lock", "database is locked (5) (SQLITE_BUSY)",
		"request canceled (Client.Timeout exceeded while awaiting headers)", "rpc error: code = Unavailable desc = no",
		"http2: server sent GOAWAY and closed the connection", "x509: certificate has expired", "ThrottlingException",
		"READONLY You can't write against a read only replica.", "redis: nil", "signal: killed", "SIGTERM", "421 4.7.0 later",
		"550 nobody", "curl: (7) Failed to connect", "retrytable.ErrLeaseLost", "main.go:7:2: sleep: x (https://host/retryvet.md#sleep)",
		"errors.Is(err, retry.StopBudget)", `{"msg":"gave up","stop":"budget"}`, "oauth2: invalid_grant", "fatal: Could not resolve host: x",
		"ready", "waiting", "running", "dead", "other",
	} {
		words[word] = true
	}
	var code []string
	for word := range words {
		answers := why.Ask(why.Question{Text: word, Policy: &retry.Policy{}, HTTP: retryhttp.DefaultPolicy()})
		assert.NotEmpty(t, answers, "%q is not known: add it to cmd/retry/internal/why", word)
		for _, a := range answers {
			code = append(code, a.Go...)
			assert.True(t, hasPlace(t, a), "no heading for\n%v", a)
		}
	}
	slices.Sort(code)
	compile(t, slices.Compact(code))
}

// hasPlace reports whether the page that an answer names has its heading.
func hasPlace(t *testing.T, a *why.Answer) bool {
	t.Helper()
	for _, l := range a.Lines {
		file, anchor, ok := strings.Cut(l.Text, "#")
		if l.Name != "more" || !ok {
			continue
		}
		page, err := os.ReadFile(root + file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
			if strings.ReplaceAll(strings.ToLower(m[1]), " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

func compile(t *testing.T, code []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`package main
import (` + "\n")
	for _, path := range []string{
		"context", "database/sql/driver", "database/sql", "io", "io/fs", "net", "net/http", "os", "os/exec", "syscall", "time",
		"github.com/seed-5ff3c98e/retry", "github.com/seed-5ff3c98e/retry/retryexec", "github.com/seed-5ff3c98e/retry/retryhttp",
		"github.com/seed-5ff3c98e/retry/retrypool", "github.com/seed-5ff3c98e/retry/retrysql",
		"github.com/seed-5ff3c98e/retry/retrytable",
	} {
		fmt.Fprintf(&b, "%q\n", path)
	}
	b.WriteString(`)
var _, _, _, _, _, _, _, _ = driver.ErrBadConn, sql.ErrNoRows, io.EOF, fs.ErrExist, net.ErrClosed, os.ErrClosed, exec.ErrNotFound, syscall.EPIPE
var _ = time.Second
func main() {}
`)
	for i, piece := range code {
		fmt.Fprintf(&b, "func f%d(ctx context.Context, policy *retry.Policy, transport *retryhttp.Transport, options *retrysql.TxOptions, "+
			"pool *retrypool.Pool, table *retrytable.Table[int], call *retry.Call, profile retryexec.Profile, err, target error) {\n%s\n}\n", i, piece)
	}
	b.WriteString("var _ http.Header\n")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// printed collects the names and texts of the code.
func printed(t *testing.T) map[string]bool {
	t.Helper()
	words := map[string]bool{}
	for c := retry.Unknown; !strings.HasPrefix(c.String(), "unknown("); c++ {
		words[c.String()] = true
	}
	for r := retry.StopNone; !strings.HasPrefix(r.Error(), "none("); r++ {
		words[r.Error()] = true
	}
	for k := retry.Retrying; !strings.HasPrefix(k.String(), "none("); k++ {
		words[k.String()] = true
	}
	for o := retryjob.Done; !strings.HasPrefix(o.String(), "none("); o++ {
		words[o.String()] = true
	}
	skip := regexp.MustCompile(`^(lab|examples|docs|internal/test|internal/storm|retrytest|cmd/retryvet/internal|cmd/retry/internal/why)$|/testdata$|/\.|^\.[a-z]`)
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skip.MatchString(path):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), root+path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool { collect(words, n); return true })
		return nil
	}))
	return words
}

// collect adds the categories, the checks and the texts of errors at a node.
func collect(words map[string]bool, n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if len(n.Args) == 0 {
			return
		}
		switch name := nameOf(n.Fun); name {
		case "Permanent", "Transient", "Unapplied", "Throttled", "Rejected", "newCheck":
			add(words, n.Args[0])
		case "New", "Errorf":
			if text := literal(n.Args[0]); isOurs.MatchString(text) {
				words[verb.ReplaceAllString(text, "7")] = true
			}
		}
	case *ast.KeyValueExpr:
		if nameOf(n.Key) == "Category" {
			add(words, n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if len(n.Lhs) == len(n.Rhs) && strings.EqualFold(nameOf(left), "category") {
				add(words, n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if isSentinel.MatchString(name.Name) {
				words[name.Name] = true
			}
			if i < len(n.Values) && strings.Contains(strings.ToLower(name.Name), "category") {
				add(words, n.Values[i])
			}
		}
	}
}

var (
	isSentinel = regexp.MustCompile(`^Err[A-Z]`)
	isOurs     = regexp.MustCompile(`^retry[a-z]*: `)
	verb       = regexp.MustCompile(`%[-+#.0-9\[\]]*[a-zA-Z]`)
)

// add adds a literal, or the family of one with something after it.
func add(words map[string]bool, e ast.Expr) {
	if sum, ok := e.(*ast.BinaryExpr); ok {
		if family := literal(sum.X); family != "" {
			words[family+"7"] = true
		}
	} else if text := literal(e); text != "" {
		words[text] = true
	}
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

package checks

import (
	"go/ast"
	"go/constant"
	"regexp"
	"strings"
)

// Post reports a request that must not happen twice and is repeated.
var Post = newCheck("post", `report a POST that is repeated without an idempotency key

An error does not say that the server has done nothing: the answer may be what was lost. The
check reports a POST in an attempt when a name says that it creates or starts something, and no
header tells the server that it is the same request again.`, post)

func post(u *unit) {
	for _, a := range u.attempts {
		if a.kind != retrying {
			continue
		}
		scope := u.scopeOf(a)
		if hasKey(scope) {
			continue
		}
		own(a.body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && u.posts(call) && creates(u.namesAround(a, call)) {
				u.report(call, "a POST that is repeated may be done twice: send an idempotency key, or repeat it only if it was certainly not handled")
			}
			return true
		})
	}
	for _, file := range u.files {
		u.retryablePosts(file)
	}
}

// scopeOf returns the declaration of a function around an attempt.
func (u *unit) scopeOf(a *attempt) ast.Node {
	if a.decl != nil {
		return a.decl
	}
	return a.in
}

// posts reports whether a call posts something, or makes a request that does.
func (u *unit) posts(call *ast.CallExpr) bool {
	switch calleeName(u.TypesInfo, call) {
	case "net/http.Post", "net/http.PostForm", "net/http.Client.Post", "net/http.Client.PostForm":
		return true
	case "net/http.NewRequest":
		return u.isPost(call.Args[0])
	case "net/http.NewRequestWithContext":
		return u.isPost(call.Args[1])
	}
	return false
}

func (u *unit) isPost(e ast.Expr) bool {
	v := u.TypesInfo.Types[e].Value
	return v != nil && v.Kind() == constant.String && constant.StringVal(v) == "POST"
}

var (
	key      = regexp.MustCompile(`(?i)idempot|request-?_?id|nonce|dedup|if-match|transaction-?_?id|client-?_?token`)
	creating = regexp.MustCompile(`(?i)creat|charg|pay|order|send|submit|deploy|restart|insert|register|notify|notif|transfer|refund|purchas|invite|publish|launch|trigger|webhook|signup`)
	reading  = regexp.MustCompile(`(?i)query|search|fetch|token|oauth|login|graphql|rpc|embed|complet|prompt|infer|lookup|list|poll|download|scrape|metric|heartbeat`)
)

// hasKey reports whether code says that the server knows a request again.
func hasKey(n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.Ident:
			return key.MatchString(m.Name)
		case *ast.BasicLit:
			return key.MatchString(m.Value)
		}
		return false
	})
}

func creates(names string) bool { return creating.MatchString(names) && !reading.MatchString(names) }

// namesAround returns the names that say what a request is for: those in the call, and that of
// the function.
func (u *unit) namesAround(a *attempt, call *ast.CallExpr) string {
	var names strings.Builder
	if a.decl != nil {
		names.WriteString(a.decl.Name.Name + " ")
	}
	words(&names, call)
	return names.String()
}

func words(b *strings.Builder, n ast.Node) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.Ident:
			if m.Name != "NewRequest" && m.Name != "NewRequestWithContext" {
				b.WriteString(m.Name + " ")
			}
		case *ast.BasicLit:
			b.WriteString(m.Value + " ")
		}
		return true
	})
}

const retryablehttp = "github.com/hashicorp/go-retryablehttp"

// retryablePosts reports requests that go-retryablehttp posts again after any 500 and any lost
// connection.
func (u *unit) retryablePosts(file *ast.File) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || hasKey(f) {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, found := strings.CutPrefix(unvendored(calleeName(u.TypesInfo, call)), retryablehttp+".")
			posts := found && (name == "Post" || name == "PostForm" || name == "Client.Post" || name == "Client.PostForm" ||
				name == "NewRequest" && u.isPost(call.Args[0]) || name == "NewRequestWithContext" && u.isPost(call.Args[1]))
			if !posts || u.setsCheckRetry() {
				return true
			}
			var names strings.Builder
			words(&names, call)
			if creates(f.Name.Name + " " + names.String()) {
				u.report(call, "go-retryablehttp repeats this POST after a lost answer: send an idempotency key, or set CheckRetry")
			}
			return true
		})
	}
}

// setsCheckRetry reports whether the package has its own idea of what to retry.
func (s *source) setsCheckRetry() bool {
	for _, file := range s.pass.Files {
		if contains(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && (id.Name == "CheckRetry" || id.Name == "RetryMax")
		}) {
			return true
		}
	}
	return false
}

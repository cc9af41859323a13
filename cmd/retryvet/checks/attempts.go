package checks

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// attempt is code that is run again when it fails.
type attempt struct {
	body *ast.BlockStmt // of the loop, or of the function given to a library
	in   *ast.BlockStmt // the body of the function with the loop or the call
	decl *ast.FuncDecl  // the declaration it is in, or nil
	sig  *types.Signature

	// A loop by hand.
	loop  ast.Stmt
	kind  kind
	tries []*try // that make the loop what it is; none if it only waits
	waits []wait

	// A function given to a library.
	lib  *library
	call *ast.CallExpr // of the library
	lit  *ast.FuncLit
}

// findAttempts finds the attempts in a file.
func (s *source) findAttempts(file *ast.File) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			ast.Inspect(decl, func(n ast.Node) bool {
				if lit, ok := n.(*ast.FuncLit); ok {
					s.inBody(lit.Body, nil, s.signature(lit))
					return false
				}
				return true
			})
			continue
		}
		if f.Body != nil {
			s.inBody(f.Body, f, s.signature(f))
		}
	}
}

func (s *source) signature(n ast.Node) *types.Signature {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if f, ok := s.pass.TypesInfo.Defs[n.Name].(*types.Func); ok {
			return f.Signature()
		}
	case *ast.FuncLit:
		if sig, ok := s.pass.TypesInfo.TypeOf(n).(*types.Signature); ok {
			return sig
		}
	}
	return types.NewSignatureType(nil, nil, nil, nil, nil, false)
}

// inBody finds the attempts in the body of a function, and in the functions in it.
func (s *source) inBody(body *ast.BlockStmt, decl *ast.FuncDecl, sig *types.Signature) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			s.inBody(n.Body, decl, s.signature(n))
			return false
		case *ast.ForStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.RangeStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.CallExpr:
			if lib, lit := s.retried(n, body); lib != nil {
				s.attempts = append(s.attempts, &attempt{
					lib: lib, call: n, lit: lit, body: lit.Body, in: body, decl: decl, sig: sig,
				})
			}
		}
		return true
	})
}

// library is a library that retries, known by its import path and the names of its functions.
type library struct {
	name string
	path *regexp.Regexp
	// does are the functions that call their argument again: "Do", "Policy.Execute".
	does []string
	// marks are the functions that give an error a meaning to the library.
	marks []string
	// opaque is whether a wrapped mark is not seen.
	opaque *regexp.Regexp
	// ends is whether it does not retry what it has given up itself.
	ends bool
}

const self = "github.com/seed-5ff3c98e/retry"

var libraries = []*library{{
	name:   "backoff",
	path:   regexp.MustCompile(`^(github\.com/cenkalti/backoff(/v\d+)?|gopkg\.in/cenkalti/backoff\.v\d)$`),
	does:   []string{"Retry", "RetryNotify", "RetryNotifyWithTimer", "RetryWithData", "RetryNotifyWithData", "RetryNotifyWithTimerAndData"},
	marks:  []string{"Permanent", "RetryAfter"},
	opaque: regexp.MustCompile(`backoff(/v[23]|\.v[123])?$`),
}, {
	name:   "retry-go",
	path:   regexp.MustCompile(`^github\.com/avast/retry-go(/v\d+)?$`),
	does:   []string{"Do", "DoWithData", "Retrier.Do", "RetrierWithData.Do"},
	marks:  []string{"Unrecoverable"},
	opaque: regexp.MustCompile(`retry-go(/v[23])?$`),
}, {
	name:  "go-retry",
	path:  regexp.MustCompile(`^github\.com/sethvargo/go-retry$`),
	does:  []string{"Do", "DoValue", "Constant", "Exponential", "Fibonacci"},
	marks: []string{"RetryableError"},
}, {
	name: "client-go's retry",
	path: regexp.MustCompile(`^k8s\.io/client-go/util/retry$`),
	does: []string{"OnError", "RetryOnConflict"},
}, {
	name:  "retry",
	path:  regexp.MustCompile(`^` + regexp.QuoteMeta(self) + `$`),
	does:  []string{"Policy.Execute", "Do"},
	marks: []string{"Mark", "MarkFinal", "MarkRetryable", "MarkRateLimited", "MarkProgress"},
	ends:  true,
}}

// libraryOf returns the library that a function belongs to, or nil.
func libraryOf(f *types.Func) *library {
	if f == nil || f.Pkg() == nil {
		return nil
	}
	path := unvendored(f.Pkg().Path())
	for _, lib := range libraries {
		if lib.path.MatchString(path) {
			return lib
		}
	}
	return nil
}

// unvendored returns the path of a package as it is imported.
func unvendored(path string) string {
	if i := strings.LastIndex(path, "/vendor/"); i >= 0 {
		return path[i+len("/vendor/"):]
	}
	return path
}

// doer returns the library whose function a call calls to retry something, or nil.
func (s *source) doer(call *ast.CallExpr) *library {
	return s.library(call, func(lib *library) []string { return lib.does })
}

// marker returns the library one of whose marks a call gives to an error, or nil.
func (s *source) marker(call *ast.CallExpr) *library {
	return s.library(call, func(lib *library) []string { return lib.marks })
}

// library returns the library whose function a call calls, if it is one of the names.
func (s *source) library(call *ast.CallExpr, names func(*library) []string) *library {
	f := callee(s.pass.TypesInfo, call)
	if lib := libraryOf(f); lib != nil && slices.Contains(names(lib), localName(f)) {
		return lib
	}
	return nil
}

// retried returns the library that a call asks to retry a function, and that function if it is
// written in this body.
func (s *source) retried(call *ast.CallExpr, body *ast.BlockStmt) (*library, *ast.FuncLit) {
	lib := s.doer(call)
	if lib == nil {
		return nil, nil
	}
	for _, arg := range call.Args {
		if conv, ok := ast.Unparen(arg).(*ast.CallExpr); ok && len(conv.Args) == 1 && s.pass.TypesInfo.Types[conv.Fun].IsType() {
			arg = conv.Args[0]
		}
		if _, ok := types.Unalias(s.pass.TypesInfo.TypeOf(arg)).Underlying().(*types.Signature); !ok {
			continue
		}
		if lit := s.literal(arg, body); lit != nil {
			return lib, lit
		}
		return nil, nil
	}
	return nil, nil
}

// literal returns the function literal that an expression is, or that the variable was given
// which it names, if it was given only one.
func (s *source) literal(e ast.Expr, body *ast.BlockStmt) *ast.FuncLit {
	if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
		return lit
	}
	v := variable(s.pass.TypesInfo, e)
	if v == nil {
		return nil
	}
	var lit *ast.FuncLit
	n := 0
	ast.Inspect(body, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.AssignStmt:
			for i, lhs := range m.Lhs {
				if variable(s.pass.TypesInfo, lhs) == v && len(m.Lhs) == len(m.Rhs) {
					n++
					lit, _ = ast.Unparen(m.Rhs[i]).(*ast.FuncLit)
				}
			}
		case *ast.ValueSpec:
			for i, name := range m.Names {
				if s.pass.TypesInfo.Defs[name] == v && i < len(m.Values) {
					n++
					lit, _ = ast.Unparen(m.Values[i]).(*ast.FuncLit)
				}
			}
		}
		return true
	})
	if n != 1 {
		return nil
	}
	return lit
}

package checks

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// Body reports a request that is sent again with a body that was read.
var Body = newCheck("body", `report a request that is sent again after its body was read

The first attempt reads the body to its end. The second sends nothing, or fails because the
length is not what the header says.`, body)

func body(u *unit) {
	for _, a := range u.attempts {
		if a.kind != retrying {
			continue
		}
		own(a.body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if u.sendsAgain(a, call) {
				u.report(call, "sends the request again although its body was read: set req.Body from req.GetBody before each attempt")
			} else if r := u.readAgain(a, call); r != nil {
				u.report(call, r.Name()+" was read by the first attempt: make a new reader for each")
			}
			return true
		})
	}
}

var sends = regexp.MustCompile(`^(Do|RoundTrip|DoRequest|Send)$`)

// sendsAgain reports whether a call sends a request with a body that was made before the
// attempt.
func (u *unit) sendsAgain(a *attempt, call *ast.CallExpr) bool {
	i := u.sent(call)
	if i < 0 {
		return false
	}
	req := variable(u.TypesInfo, call.Args[i])
	if req == nil || u.madeIn(a, req) || u.rewinds(a.body, req) {
		return false
	}
	if isParam(a.sig, req) {
		return a.decl != nil && !u.rewinds(a.in, req) && !u.asksMethod(a.in, req) && u.getsBody(a, req)
	}
	return u.hasBody(a.in, req)
}

// sent returns the index of the argument of a call that is a request which it sends, or -1. The
// function may be one of this package that does nothing but that with its request.
func (u *unit) sent(call *ast.CallExpr) int {
	if !returnsResponse(u.TypesInfo, call) {
		return -1
	}
	i := slices.IndexFunc(call.Args, func(e ast.Expr) bool { return isType(u.TypesInfo.TypeOf(e), "net/http", "Request") })
	f := callee(u.TypesInfo, call)
	if i < 0 || f == nil || f.Signature().Variadic() {
		return -1
	}
	if decl := u.decl(f); decl != nil {
		req := f.Signature().Params().At(i)
		sends := contains(decl.Body, func(n ast.Node) bool {
			inner, ok := n.(*ast.CallExpr)
			return ok && sends.MatchString(funcName(inner)) && len(inner.Args) > 0 && variable(u.TypesInfo, inner.Args[0]) == req
		})
		if sends && !u.rewinds(decl.Body, req) {
			return i
		}
		return -1
	}
	ours := f.Pkg() != nil && (f.Pkg().Path() == "net/http" || f.Pkg() == u.Pkg) // an interface of this package
	if !ours || !sends.MatchString(f.Name()) {
		return -1
	}
	return i
}

// hasBody reports whether code makes a request with a body, or gives it one.
func (u *unit) hasBody(body ast.Node, req *types.Var) bool {
	isBody := func(e ast.Expr) bool { return !isNilExpr(u.TypesInfo, e) && !isNoBody(e) }
	return contains(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return false
		}
		if sel, ok := assign.Lhs[0].(*ast.SelectorExpr); ok {
			return sel.Sel.Name == "Body" && variable(u.TypesInfo, sel.X) == req && isBody(assign.Rhs[0])
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		return ok && variable(u.TypesInfo, assign.Lhs[0]) == req && isNewRequest(u.TypesInfo, call) && isBody(call.Args[len(call.Args)-1])
	})
}

// getsBody reports whether a parameter of the function with the attempts gets requests with a
// body: anybody may call what is exported, and of other functions the callers are known.
func (u *unit) getsBody(a *attempt, req *types.Var) bool {
	if a.decl.Name.IsExported() {
		return true
	}
	f, index := u.parameter(req)
	return f != nil && slices.ContainsFunc(u.files, func(file *ast.File) bool {
		return slices.ContainsFunc(file.Decls, func(decl ast.Decl) bool {
			return contains(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || typeutil.Callee(u.TypesInfo, call) != f || index >= len(call.Args) {
					return false
				}
				arg := variable(u.TypesInfo, call.Args[index])
				return arg != nil && u.hasBody(decl, arg)
			})
		})
	})
}

func returnsResponse(info *types.Info, call *ast.CallExpr) bool {
	t, ok := info.TypeOf(call).(*types.Tuple)
	return ok && t.Len() > 0 && isResponse(t.At(0).Type())
}

func isParam(sig *types.Signature, v *types.Var) bool {
	for p := range sig.Params().Variables() {
		if p == v {
			return true
		}
	}
	return false
}

func isNoBody(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "NoBody"
}

// madeIn reports whether a variable is declared or set in the attempt.
func (u *unit) madeIn(a *attempt, v *types.Var) bool {
	if a.body.Pos() <= v.Pos() && v.Pos() < a.body.End() {
		return true
	}
	if a.lit != nil && isParam(u.signature(a.lit), v) {
		return true
	}
	return contains(a.again(), func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return false
		}
		for _, lhs := range assign.Lhs {
			if variable(u.TypesInfo, lhs) == v {
				return true
			}
		}
		return false
	})
}

// again is all that runs for each attempt.
func (a *attempt) again() ast.Node {
	if a.loop != nil {
		return a.loop
	}
	return a.body
}

// rewinds reports whether a body of code does anything about the body of a request.
func (u *unit) rewinds(body ast.Node, req *types.Var) bool {
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			name := n.Sel.Name
			return variable(u.TypesInfo, n.X) == req && (name == "Body" || name == "GetBody" || name == "Clone")
		case *ast.CallExpr:
			for _, arg := range n.Args { // reset(req), but not client.Do(req)
				if variable(u.TypesInfo, arg) == req && !returnsResponse(u.TypesInfo, n) {
					return true
				}
			}
		}
		return false
	})
}

// asksMethod reports whether the method of a request decides about the attempts.
func (u *unit) asksMethod(body ast.Node, req *types.Var) bool {
	return contains(body, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Method" && variable(u.TypesInfo, sel.X) == req
	})
}

func isNewRequest(info *types.Info, call *ast.CallExpr) bool {
	name := calleeName(info, call)
	return name == "net/http.NewRequest" || name == "net/http.NewRequestWithContext"
}

// readAgain returns the reader that an attempt gives to a request, and the one before gave
// too.
func (u *unit) readAgain(a *attempt, call *ast.CallExpr) *types.Var {
	name := calleeName(u.TypesInfo, call)
	if !isNewRequest(u.TypesInfo, call) && name != "net/http.Post" && name != "net/http.Client.Post" {
		return nil
	}
	v := variable(u.TypesInfo, u.unwrapped(call.Args[len(call.Args)-1]))
	if v == nil || u.madeIn(a, v) || !isReader(v.Type()) || u.seeks(a.in, v) {
		return nil
	}
	return v
}

// unwrapped returns the reader inside of others: r of io.NopCloser(bufio.NewReader(r)).
func (u *unit) unwrapped(e ast.Expr) ast.Expr {
	for {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || rewinding.MatchString(funcName(call)) {
			return e
		}
		i := slices.IndexFunc(call.Args, func(arg ast.Expr) bool { return reads(u.TypesInfo.TypeOf(arg)) })
		if i < 0 || !reads(u.TypesInfo.TypeOf(call)) {
			return e
		}
		e = call.Args[i]
	}
}

var rewinding = regexp.MustCompile(`(?i)seek|rewind|reset|clone|copy|reopen|fresh`)

// reads reports whether a type has the method of an io.Reader.
func reads(t types.Type) bool {
	if t == nil {
		return false
	}
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "Read")
	f, ok := obj.(*types.Func)
	return ok && f.Signature().Params().Len() == 1 && f.Signature().Results().Len() == 2
}

func isReader(t types.Type) bool {
	return isType(t, "bytes", "Buffer") || isType(t, "bytes", "Reader") || isType(t, "strings", "Reader") || isType(t, "io", "Reader") || isType(t, "io", "ReadCloser")
}

// seeks reports whether a reader is set back, or read whole before.
func (u *unit) seeks(body ast.Node, v *types.Var) bool {
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			return variable(u.TypesInfo, n.X) == v && (n.Sel.Name == "Seek" || n.Sel.Name == "Reset")
		case *ast.TypeAssertExpr:
			return variable(u.TypesInfo, n.X) == v
		case *ast.TypeSwitchStmt:
			return mentions(u.TypesInfo, n.Assign, v)
		}
		return false
	})
}

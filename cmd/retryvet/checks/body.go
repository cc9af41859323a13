package checks

import (
	"go/ast"
	"go/types"
	"regexp"
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
	if !sends.MatchString(funcName(call)) || len(call.Args) == 0 || !returnsResponse(u.TypesInfo, call) {
		return false
	}
	req := variable(u.TypesInfo, call.Args[0])
	if req == nil || !isType(req.Type(), "net/http", "Request") || u.madeIn(a, req) || u.rewinds(a.body, req) {
		return false
	}
	if calleeLib := callee(u.TypesInfo, call); calleeLib == nil || calleeLib.Pkg() != nil && calleeLib.Pkg().Path() != "net/http" {
		return false
	}
	if made := u.requests(a.in, req); len(made) > 0 {
		for _, m := range made {
			if body := m.Args[len(m.Args)-1]; !isNilExpr(u.TypesInfo, body) && !isNoBody(body) {
				return true
			}
		}
		return false
	}
	// A parameter: only what anybody may call gets requests with a body.
	return a.decl != nil && a.decl.Name.IsExported() && isParam(a.sig, req) && !u.rewinds(a.in, req) && !u.asksMethod(a.in, req)
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

// requests returns the calls that may have made a request.
func (u *unit) requests(body ast.Node, req *types.Var) []*ast.CallExpr {
	var made []*ast.CallExpr
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 || variable(u.TypesInfo, assign.Lhs[0]) != req {
			return true
		}
		if call, ok := assign.Rhs[0].(*ast.CallExpr); ok && isNewRequest(u.TypesInfo, call) {
			made = append(made, call)
		}
		return true
	})
	return made
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
	v := variable(u.TypesInfo, call.Args[len(call.Args)-1])
	if v == nil || u.madeIn(a, v) || !isReader(v.Type()) || u.seeks(a.in, v) {
		return nil
	}
	return v
}

func isReader(t types.Type) bool {
	return isType(t, "bytes", "Buffer") || isType(t, "bytes", "Reader") || isType(t, "strings", "Reader") || isType(t, "io", "Reader")
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

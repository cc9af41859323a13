package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"math"
	"regexp"
	"slices"
)

// contextAt returns the name of a context that could interrupt what is at pos: "ctx", or
// "req.Context()". It is one that is known before the loop, since one that is made for an
// attempt ends with it. It is "" if there is none, or if the attempts have one without an end.
func (s *source) contextAt(pos token.Pos, loop ast.Stmt) string {
	scope := s.pass.Pkg.Scope().Innermost(pos)
	request := ""
	for ; scope != nil && scope != s.pass.Pkg.Scope(); scope = scope.Parent() {
		for _, name := range scope.Names() {
			v, ok := scope.Lookup(name).(*types.Var)
			if !ok || name == "_" || v.Pos() >= loop.Pos() {
				continue
			}
			// Of those with the same name, only the inmost is meant.
			if _, obj := s.pass.Pkg.Scope().Innermost(pos).LookupParent(name, pos); obj != v {
				continue
			}
			switch {
			case isContext(v.Type()) && s.renews(loop, v):
			case isContext(v.Type()) && !s.endless(v, loop.End()):
				return name
			case isContext(v.Type()) && mentions(s.pass.TypesInfo, loop, v):
				return "" // the attempts are to go on whatever ends
			case isType(v.Type(), "net/http", "Request") && !sets(s.pass.TypesInfo, loop, v) && !s.endlessRequest(v):
				request = name + ".Context()"
			}
		}
	}
	if request == "" {
		return s.contextField(loop)
	}
	return request
}

// renews reports whether a loop sets a variable to a context that does not come from the one before:
// it is that of an attempt.
func (s *source) renews(loop ast.Stmt, ctx *types.Var) bool {
	return contains(loop, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		return ok && sets(s.pass.TypesInfo, assign, ctx) && !slices.ContainsFunc(assign.Rhs, func(e ast.Expr) bool {
			return mentions(s.pass.TypesInfo, e, ctx)
		})
	})
}

// contextField returns the context that a loop takes out of a struct, or "": r.ctx.
func (s *source) contextField(loop ast.Stmt) string {
	field := ""
	own(loop, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || field != "" || !isContext(s.pass.TypesInfo.TypeOf(sel)) {
			return true
		}
		v := variable(s.pass.TypesInfo, sel.X)
		f, ok := s.pass.TypesInfo.Uses[sel.Sel].(*types.Var)
		if v != nil && v.Pos() < loop.Pos() && ok && !s.endlessField(f) && !s.renewsField(loop, sel, v) {
			field = types.ExprString(sel)
		}
		return true
	})
	return field
}

// renewsField reports whether a loop sets a field, or the variable that it is in.
func (s *source) renewsField(loop ast.Stmt, field *ast.SelectorExpr, of *types.Var) bool {
	name := types.ExprString(field)
	return contains(loop, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		return ok && slices.ContainsFunc(assign.Lhs, func(lhs ast.Expr) bool {
			return types.ExprString(lhs) == name || variable(s.pass.TypesInfo, lhs) == of
		})
	})
}

// endless reports whether a variable has a context that never ends while its function runs, up to
// a position.
func (s *source) endless(v *types.Var, until token.Pos) bool {
	background, others := false, false
	for _, file := range s.pass.Files {
		if v.Pos() < file.FileStart || file.FileEnd <= v.Pos() {
			continue
		}
		others = v.Kind() == types.ParamVar && !s.replaced(file, v)
		ast.Inspect(file, func(n ast.Node) bool {
			set := func(name, value ast.Expr, more ...ast.Expr) {
				if variable(s.pass.TypesInfo, name) != v {
					return
				}
				if s.isBackground(value) || len(more) == 1 && s.endsLater(file, value, more[0], until) {
					background = true
				} else {
					others = true
				}
			}
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, name := range n.Lhs {
					set(name, n.Rhs[min(i, len(n.Rhs)-1)], n.Lhs[i+1:]...)
				}
			case *ast.ValueSpec: // var ctx = context.Background()
				for i, name := range n.Names {
					if len(n.Values) > 0 {
						set(name, n.Values[min(i, len(n.Values)-1)])
					}
				}
			}
			return true
		})
	}
	return background && !others
}

// endlessField reports whether this package gives a field contexts that never end, and no others.
func (s *source) endlessField(field *types.Var) bool {
	background, others := false, false
	set := func(e ast.Expr) {
		v := variable(s.pass.TypesInfo, e)
		if s.isBackground(e) || v != nil && s.endless(v, math.MaxInt) {
			background = true
		} else {
			others = true
		}
	}
	for _, file := range s.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && s.pass.TypesInfo.Uses[key] == field {
					set(n.Value)
				}
			case *ast.AssignStmt:
				for i, lhs := range n.Lhs {
					if sel, ok := ast.Unparen(lhs).(*ast.SelectorExpr); ok && s.pass.TypesInfo.Uses[sel.Sel] == field {
						set(n.Rhs[min(i, len(n.Rhs)-1)])
					}
				}
			}
			return true
		})
	}
	return background && !others
}

// replaced reports whether a function gives a parameter another value in any case.
func (s *source) replaced(file *ast.File, param *types.Var) bool {
	return contains(file, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			body = n.Body
		case *ast.FuncLit:
			body = n.Body
		}
		return body != nil && isParam(s.signature(n), param) && slices.ContainsFunc(body.List, func(stmt ast.Stmt) bool {
			assign, ok := stmt.(*ast.AssignStmt)
			return ok && sets(s.pass.TypesInfo, assign, param)
		})
	})
}

// endsLater reports whether a call makes a context of one without an end, and nothing cancels it
// up to a position but the function itself: ctx, cancel := context.WithCancel(context.Background()).
func (s *source) endsLater(file *ast.File, made, cancels ast.Expr, until token.Pos) bool {
	call, ok := ast.Unparen(made).(*ast.CallExpr)
	if !ok {
		return false
	}
	if name := calleeName(s.pass.TypesInfo, call); name != "context.WithCancel" && name != "context.WithCancelCause" || !s.isBackground(call.Args[0]) {
		return false
	}
	cancel := variable(s.pass.TypesInfo, cancels)
	if cancel == nil {
		return true
	}
	is := func(e ast.Expr) bool { return variable(s.pass.TypesInfo, e) == cancel }
	return !contains(file, func(n ast.Node) bool {
		if n.Pos() >= until {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncLit: // may be called by another goroutine
			return made.End() < n.Pos() && !s.deferred(file, n) && mentions(s.pass.TypesInfo, n, cancel)
		case *ast.CallExpr:
			return slices.ContainsFunc(n.Args, is)
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Rhs, is)
		case *ast.GoStmt:
			return is(n.Call.Fun)
		case *ast.KeyValueExpr:
			return is(n.Value)
		}
		return false
	})
}

// deferred reports whether a function is only deferred: defer func() { cancel() }().
func (s *source) deferred(file *ast.File, lit *ast.FuncLit) bool {
	return contains(file, func(n ast.Node) bool {
		d, ok := n.(*ast.DeferStmt)
		return ok && ast.Unparen(d.Call.Fun) == lit
	})
}

// endlessRequest reports whether a request is one of http.NewRequest, which gives it no context, or
// of a function of this package that calls that.
func (s *source) endlessRequest(v *types.Var) bool {
	const newRequest = "net/http.NewRequest"
	made := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && calleeName(s.pass.TypesInfo, call) == newRequest
	}
	endless := false
	for _, file := range s.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Rhs) != 1 || variable(s.pass.TypesInfo, assign.Lhs[0]) != v {
				return true
			}
			call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
			if !ok {
				return true
			}
			maker := s.decl(callee(s.pass.TypesInfo, call))
			endless = made(call) || maker != nil && contains(maker, made)
			return true
		})
	}
	return endless
}

// isBackground reports whether a call returns a context without an end. What gets one, and has no name
// that speaks of an end, adds values to it.
func (s *source) isBackground(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	switch calleeName(s.pass.TypesInfo, call) {
	case "context.Background", "context.TODO", "context.WithoutCancel":
		return true
	}
	if !s.returnsContext(call) || endsContexts.MatchString(funcName(call)) {
		return false
	}
	contexts := slices.DeleteFunc(slices.Clone(call.Args), func(arg ast.Expr) bool { return !isContext(s.pass.TypesInfo.TypeOf(arg)) })
	return len(contexts) > 0 && !slices.ContainsFunc(contexts, func(arg ast.Expr) bool { return !s.isBackground(arg) })
}

var endsContexts = regexp.MustCompile(`(?i)cancel|timeout|deadline|notify|signal|stop|interrupt|limit|group`)

// returnsContext reports whether a call returns a context first, and no function that could end it.
func (s *source) returnsContext(call *ast.CallExpr) bool {
	results, ok := s.pass.TypesInfo.TypeOf(call).(*types.Tuple)
	if !ok {
		return isContext(s.pass.TypesInfo.TypeOf(call))
	}
	for v := range results.Variables() {
		if _, ok := v.Type().Underlying().(*types.Signature); ok {
			return false
		}
	}
	return results.Len() > 0 && isContext(results.At(0).Type())
}

// asksContext reports whether a node asks whether a context is done, or gives it to something
// that waits.
func (s *source) asksContext(n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.CallExpr:
			sel, ok := ast.Unparen(m.Fun).(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "Done" || sel.Sel.Name == "Err" || sel.Sel.Name == "Deadline") &&
				isContext(s.pass.TypesInfo.TypeOf(sel.X)) {
				return true
			}
			return calleeName(s.pass.TypesInfo, m) == "context.Cause"
		case *ast.SelectorExpr:
			obj := s.pass.TypesInfo.ObjectOf(m.Sel)
			return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == "context" &&
				(obj.Name() == "Canceled" || obj.Name() == "DeadlineExceeded")
		}
		return false
	})
}

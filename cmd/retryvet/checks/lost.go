package checks

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// Lost reports what somebody said about an error and nobody hears.
var Lost = newCheck("lost", `report an error or a mark that is lost

"max retries exceeded" without the last error does not say why. A mark, such as
backoff.Permanent, is lost if it is formatted with %v, or given to another library. And a call
that retries and whose result is thrown away fails in silence.`, lost)

func lost(u *unit) {
	for _, a := range u.attempts {
		if a.loop != nil {
			u.lastError(a)
		} else {
			u.foreignMarks(a)
		}
	}
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				u.formatted(n)
			case *ast.ExprStmt:
				u.ignoredResult(n.X)
			case *ast.GoStmt:
				u.ignoredResult(n.Call)
			case *ast.DeferStmt:
				u.ignoredResult(n.Call)
			}
			return true
		})
	}
}

// lastError reports a return after a loop that does not say what the last attempt said.
func (u *unit) lastError(a *attempt) {
	ret := u.after(a)
	if ret == nil || len(ret.Results) == 0 || a.kind != retrying || !slices.ContainsFunc(a.tries, (*try).onError) {
		return
	}
	call, ok := ast.Unparen(ret.Results[len(ret.Results)-1]).(*ast.CallExpr)
	if !ok {
		return
	}
	name := calleeName(u.TypesInfo, call)
	if name != "errors.New" && name != "fmt.Errorf" || len(call.Args) == 0 || !saysGivenUp(u.text(call.Args[0])) {
		return
	}
	for _, arg := range call.Args {
		if mentionsError(u.TypesInfo, arg) {
			return
		}
	}
	if u.goesOnByKind(a) || u.lastReturns(a) {
		return
	}
	u.report(call, "the error of the last attempt is lost: wrap it, so that the caller learns why")
}

// lastReturns reports whether a loop itself returns the error of its last attempt, by its count.
func (u *unit) lastReturns(a *attempt) bool {
	counters, _ := u.counters(a)
	return len(counters) > 0 && contains(a.body, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok || !mentions(u.TypesInfo, branch.Cond, counters...) || len(branch.Body.List) == 0 {
			return false
		}
		ret, ok := branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt)
		return ok && slices.ContainsFunc(ret.Results, func(e ast.Expr) bool { return mentionsError(u.TypesInfo, e) })
	})
}

// goesOnByKind reports whether one kind of error alone makes a loop go round, so that the text
// after it can say which.
func (u *unit) goesOnByKind(a *attempt) bool {
	return contains(a.body, func(n ast.Node) bool {
		switch sw := n.(type) {
		case *ast.SwitchStmt:
			if sw.Tag == nil {
				return u.continuesByKind(sw.Body)
			}
			return isError(u.TypesInfo.TypeOf(sw.Tag)) && continuesByCase(sw.Body)
		case *ast.TypeSwitchStmt:
			return mentionsError(u.TypesInfo, sw.Assign) && continuesByCase(sw.Body)
		}
		branch, ok := n.(*ast.IfStmt)
		if !ok || len(branch.Body.List) == 0 {
			return false
		}
		switch last := branch.Body.List[len(branch.Body.List)-1].(type) {
		case *ast.BranchStmt:
			return last.Tok == token.CONTINUE && slices.ContainsFunc(conjuncts(branch.Cond), func(cond ast.Expr) bool { return u.isKind(branch.Init, cond) })
		case *ast.ReturnStmt:
			not, ok := ast.Unparen(branch.Cond).(*ast.UnaryExpr)
			return ok && not.Op == token.NOT && u.isKind(branch.Init, not.X)
		}
		return false
	})
}

// continuesByCase reports whether a switch goes round for one kind, and not for all.
func continuesByCase(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(body.List, func(stmt ast.Stmt) bool {
		clause := stmt.(*ast.CaseClause)
		if clause.List == nil || len(clause.Body) == 0 {
			return false
		}
		last, ok := clause.Body[len(clause.Body)-1].(*ast.BranchStmt)
		return ok && last.Tok == token.CONTINUE
	})
}

// continuesByKind reports whether a switch without a tag goes round in the case of one kind.
func (u *unit) continuesByKind(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(body.List, func(stmt ast.Stmt) bool {
		clause := stmt.(*ast.CaseClause)
		return slices.ContainsFunc(clause.List, func(cond ast.Expr) bool { return u.isKind(nil, cond) }) &&
			slices.ContainsFunc(clause.Body, func(stmt ast.Stmt) bool {
				return contains(stmt, func(n ast.Node) bool {
					branch, ok := n.(*ast.BranchStmt)
					return ok && branch.Tok == token.CONTINUE
				})
			})
	})
}

// isKind reports whether a condition is true of one kind of error: errors.Is(err, x),
// err == x, status.Code(err) == x, or the ok of errors.AsType[T](err) or err.(T) in the statement before it.
func (u *unit) isKind(init ast.Stmt, cond ast.Expr) bool {
	cond = ast.Unparen(cond)
	if ok, is := cond.(*ast.Ident); is {
		assign, is := init.(*ast.AssignStmt)
		if !is || len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
			return false
		}
		if set, is := assign.Lhs[1].(*ast.Ident); !is || set.Name != ok.Name {
			return false
		}
		cond = ast.Unparen(assign.Rhs[0])
	}
	if equal, ok := cond.(*ast.BinaryExpr); ok && equal.Op == token.EQL {
		if isError(u.TypesInfo.TypeOf(equal.X)) && !isNilExpr(u.TypesInfo, equal.Y) {
			return true
		}
		cond = ast.Unparen(equal.X)
	}
	switch cond.(type) {
	case *ast.CallExpr, *ast.TypeAssertExpr:
	default:
		return false
	}
	return contains(cond, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		return ok && u.TypesInfo.TypeOf(e) != nil && isError(u.TypesInfo.TypeOf(e))
	})
}

// firstReturn returns the return in a list, if there is nothing before it that could return or
// handle an error.
func firstReturn(list []ast.Stmt) *ast.ReturnStmt {
	for _, stmt := range list {
		switch stmt := stmt.(type) {
		case *ast.ReturnStmt:
			return stmt
		case *ast.AssignStmt, *ast.DeclStmt, *ast.ExprStmt:
		default:
			return nil
		}
	}
	return nil
}

// after returns the return that follows a loop, or nil.
func (u *unit) after(a *attempt) *ast.ReturnStmt {
	var ret *ast.ReturnStmt
	ast.Inspect(a.in, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for i := 0; i+1 < len(list); i++ {
			stmt := list[i]
			if labeled, ok := stmt.(*ast.LabeledStmt); ok {
				stmt = labeled.Stmt
			}
			if stmt == a.loop {
				ret = firstReturn(list[i+1:])
			}
		}
		return true
	})
	return ret
}

var givenUp = regexp.MustCompile(`(?i)retr|attempt|tries|exceed|gave up|giv(e|ing) up|timed? ?out|fail|unable|could ?n.t|could not|exhaust`)

func saysGivenUp(text string) bool { return givenUp.MatchString(text) }

func (s *source) text(e ast.Expr) string {
	if v := s.pass.TypesInfo.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}

// mentionsError reports whether a node has an error in it.
func mentionsError(info *types.Info, n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		e, ok := m.(ast.Expr)
		if !ok {
			return false
		}
		t := info.TypeOf(e)
		if t == nil {
			return false
		}
		if slice, ok := t.Underlying().(*types.Slice); ok {
			t = slice.Elem()
		}
		return isError(t) || implementsError(t)
	})
}

func implementsError(t types.Type) bool {
	if b, ok := t.(*types.Basic); ok && b.Kind() == types.Invalid {
		return true
	}
	return types.Implements(t, errorType.Underlying().(*types.Interface))
}

// foreignMarks reports a mark of another library, or one that its own does not see because it
// is wrapped.
func (u *unit) foreignMarks(a *attempt) {
	own(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if lib := u.marker(call); lib != nil {
			mark, loop := callee(u.TypesInfo, call).Pkg(), callee(u.TypesInfo, a.call).Pkg()
			if lib != a.lib || mark != loop {
				u.report(call, fmt.Sprintf("%s is retried by %s, which does not know this mark of %s", "this function", loop.Path(), mark.Path()))
			}
		}
		return true
	})
}

// formatted reports a mark that is formatted into the text of an error.
func (u *unit) formatted(call *ast.CallExpr) {
	if calleeName(u.TypesInfo, call) != "fmt.Errorf" || len(call.Args) < 2 || call.Ellipsis.IsValid() {
		return
	}
	verbs := verbsOf(u.text(call.Args[0]))
	for i, arg := range call.Args[1:] {
		mark, ok := ast.Unparen(arg).(*ast.CallExpr)
		if !ok || i >= len(verbs) {
			continue
		}
		lib := u.marker(mark)
		if lib == nil || funcName(mark) == "RetryAfter" {
			continue
		}
		opaque := lib.opaque != nil && lib.opaque.MatchString(unvendored(callee(u.TypesInfo, mark).Pkg().Path()))
		switch {
		case verbs[i] != 'w':
			u.report(arg, fmt.Sprintf("%%%c drops the mark: use %%w", verbs[i]))
		case opaque:
			u.report(arg, "this version of the library does not see a mark that is wrapped: mark the outer error")
		}
	}
}

// verbsOf returns the verbs of a format without explicit indexes, or nothing.
func verbsOf(format string) []byte {
	var verbs []byte
	format = strings.ReplaceAll(format, "%%", "")
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		i = len(format) - len(strings.TrimLeft(format[i:], "+-# 0123456789."))
		if i == len(format) || format[i] == '[' || format[i] == '*' {
			return nil
		}
		verbs = append(verbs, format[i])
	}
	return verbs
}

// ignoredResult reports a call that retries and whose error goes nowhere.
func (u *unit) ignoredResult(e ast.Expr) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || u.doer(call) == nil || !returnsError(u.TypesInfo, call) {
		return
	}
	for _, a := range u.attempts {
		if a.call == call && (u.neverFails(a) || u.leavesResult(a)) {
			return
		}
	}
	u.report(call, "nobody learns that all attempts failed: the error is ignored")
}

// neverFails reports whether the function that is retried handles its error itself, as one that
// always returns nil.
func (u *unit) neverFails(a *attempt) bool {
	fails := false
	own(a.body, func(n ast.Node) bool {
		ret, ok := n.(*ast.ReturnStmt)
		if ok && len(ret.Results) > 0 && !isNilExpr(u.TypesInfo, ret.Results[len(ret.Results)-1]) {
			fails = true
		}
		return true
	})
	return !fails
}

// leavesResult reports whether the function that is retried sets a variable from which others
// learn after the call what has become of it.
func (u *unit) leavesResult(a *attempt) bool {
	var set []types.Object
	own(a.body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			for _, lhs := range assign.Lhs {
				if v := variable(u.TypesInfo, lhs); v != nil && v.Pos() < a.body.Pos() {
					set = append(set, v)
				}
			}
		}
		return true
	})
	return len(set) > 0 && contains(a.in, func(n ast.Node) bool {
		return n.Pos() > a.call.End() && mentions(u.TypesInfo, n, set...)
	})
}

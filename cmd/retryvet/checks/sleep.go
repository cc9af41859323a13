package checks

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"time"

	"golang.org/x/tools/go/analysis"
)

// Sleep reports a wait between attempts that a context cannot interrupt.
var Sleep = newCheck("sleep", `report a wait between attempts that ignores the context

A loop that retries and waits with time.Sleep goes on waiting when its context has ended: the
program does not stop, and the caller of a request that was canceled waits for nothing.`, sleep)

// longEnough is the shortest wait that is worth an interruption.
const longEnough = 100 * time.Millisecond

func sleep(u *unit) {
	for _, a := range u.attempts {
		for _, w := range a.waits {
			if d, ok := u.duration(w.dur); w.interruptible || ok && d < longEnough {
				continue
			}
			if ctx := u.contextAt(w.node.Pos(), a.loop); ctx != "" && !u.whereNil(a, w, ctx) {
				u.report(w.node, "the wait before the next attempt ignores "+ctx, u.selectFix(a, w, ctx)...)
			}
		}
	}
}

// whereNil reports whether a wait is in the branch for a context that is nil.
func (s *source) whereNil(a *attempt, w wait, ctx string) bool {
	isNil := false
	own(a.body, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		cond, ok := ast.Unparen(branch.Cond).(*ast.BinaryExpr)
		if !ok || types.ExprString(cond.X) != ctx || !isNilExpr(s.pass.TypesInfo, cond.Y) {
			return true
		}
		var where ast.Node = branch.Body
		if cond.Op == token.NEQ {
			where = branch.Else
		}
		isNil = isNil || where != nil && where.Pos() <= w.node.Pos() && w.node.End() <= where.End()
		return true
	})
	return isNil
}

// duration returns the value of a constant duration.
func (s *source) duration(e ast.Expr) (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	v := s.pass.TypesInfo.Types[e].Value
	if v == nil {
		return 0, false
	}
	d, exact := constant.Int64Val(constant.ToInt(v))
	return time.Duration(d), exact
}

// selectFix makes a select of a call of time.Sleep, where the function returns an error and
// nothing else.
func (u *unit) selectFix(a *attempt, w wait, ctx string) []analysis.SuggestedFix {
	results := a.sig.Results()
	if w.dur == nil || results.Len() != 1 || !isError(results.At(0).Type()) || !u.imports(w.node, "time") {
		return nil
	}
	indent := u.indent(w.node)
	text := fmt.Sprintf("select {\n%[1]scase <-%[2]s.Done():\n%[1]s\treturn %[2]s.Err()\n%[1]scase <-time.After(%[3]s):\n%[1]s}",
		indent, ctx, types.ExprString(w.dur))
	return []analysis.SuggestedFix{{
		Message:   "wait for the context too",
		TextEdits: []analysis.TextEdit{{Pos: w.node.Pos(), End: w.node.End(), NewText: []byte(text)}},
	}}
}

// imports reports whether a name means an imported package where a node is.
func (s *source) imports(n ast.Node, name string) bool {
	_, obj := s.pass.Pkg.Scope().Innermost(n.Pos()).LookupParent(name, n.Pos())
	_, ok := obj.(*types.PkgName)
	return ok
}

// indent returns the tabs before a statement.
func (s *source) indent(n ast.Node) string {
	column := s.pass.Fset.Position(n.Pos()).Column
	tabs := make([]byte, column-1)
	for i := range tabs {
		tabs[i] = '\t'
	}
	return string(tabs)
}

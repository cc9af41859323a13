package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"time"
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

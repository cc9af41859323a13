package checks

import (
	"go/ast"
	"go/constant"
	"time"
)

// Sleep reports a wait between attempts that a context cannot interrupt.
var Sleep = newCheck("sleep", `report a wait between attempts that ignores the context

A loop that retries and waits with time.Sleep goes on waiting when its context has ended: the
program does not stop, and the caller of a request that was canceled waits for nothing.`, sleep)

func sleep(u *unit) {
	for _, a := range u.attempts {
		if a.loop != nil && u.stopsItself(a) {
			continue
		}
		for _, w := range a.waits {
			if w.interruptible || u.short(a, w) || !u.between(a, w) || u.ended(a, w) || u.briefly(a, w) {
				continue
			}
			ctx := u.contextAt(w.node.Pos(), a.loop)
			if ctx == "" || a.kind != retrying && !u.near(a, ctx) || u.outlives(a, ctx) {
				continue
			}
			u.report(w.node, "the wait before the next "+a.kind.round()+" ignores "+ctx, u.selectFix(a, w, ctx)...)
		}
	}
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

package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// Unbounded reports attempts that nothing ends but a success.
var Unbounded = newCheck("unbounded", `report attempts without a limit and without a context

A loop that goes on until it succeeds hangs its caller for as long as the server is down, and
cannot be stopped. The check reports such a loop in a function that could return the error.`, unbounded)

func unbounded(u *unit) {
	for _, a := range u.attempts {
		switch {
		case a.loop != nil && a.kind == retrying && u.endlessLoop(a):
			u.report(keyword{a.loop}, "nothing ends these attempts but a success: there is no limit, and no context is asked")
		case a.lib != nil && u.endlessCall(a):
			u.report(a.call, "nothing ends these attempts but a success: there is no limit, and no context that can end")
		}
	}
}

// keyword is the for of a loop, which a finding is about that is about all of it.
type keyword struct{ ast.Node }

func (k keyword) End() token.Pos { return k.Pos() + token.Pos(len("for")) }

func (u *unit) endlessLoop(a *attempt) bool {
	loop, ok := a.loop.(*ast.ForStmt)
	if !ok || loop.Cond != nil || !sleepsDeaf(a) || u.asksContext(loop) || u.receives(a) {
		return false
	}
	if !u.returnsError(a) {
		return false
	}
	g := u.graph(a.in)
	for _, t := range a.tries {
		if t.onError() && g.walk(t.at, loop, t.failsWith(), nil) == goesOn {
			return !mentionsContext(u.TypesInfo, loop) && !g.leavesBefore(t, loop)
		}
	}
	return false
}

// leavesBefore reports whether an iteration may leave its loop before an attempt, as one does that has
// counted enough.
func (g *graph) leavesBefore(t *try, loop ast.Stmt) bool {
	start, ok := g.start(loop)
	return ok && g.walk(start, loop, scene{}, func(n ast.Node, _ scene) bool {
		return n.Pos() > t.call.Pos() || n.End() < t.call.End()
	})&leaves != 0
}

// sleepsDeaf reports whether a loop waits, and only in ways that nothing can interrupt.
func sleepsDeaf(a *attempt) bool {
	for _, w := range a.waits {
		if w.interruptible {
			return false
		}
	}
	return len(a.waits) > 0
}

// receives reports whether a loop waits for a channel that no timer sends on.
func (u *unit) receives(a *attempt) bool {
	return contains(a.loop, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectStmt)
		return ok && len(sel.Body.List) > 1
	})
}

// returnsError reports whether the function with the attempts could return their error. One that
// has a context is left to the check of waits.
func (u *unit) returnsError(a *attempt) bool {
	for v := range a.sig.Results().Variables() {
		if isError(v.Type()) {
			return u.contextAt(a.body.Pos(), a.loop) == ""
		}
	}
	return false
}

func mentionsContext(info *types.Info, n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		e, ok := m.(ast.Expr)
		return ok && info.TypeOf(e) != nil && isContext(info.TypeOf(e))
	})
}

// endlessCall reports whether a library was told to go on for ever.
func (u *unit) endlessCall(a *attempt) bool {
	switch a.lib.name {
	case "backoff":
		return u.endlessBackoff(a)
	case "go-retry":
		return len(a.call.Args) > 1 && u.isBackground(a.call.Args[0]) && !u.has(a.in, "WithMaxRetries", "WithMaxDuration") &&
			u.has(a.in, "NewExponential", "NewConstant", "NewFibonacci", "Exponential", "Constant", "Fibonacci")
	case "retry-go":
		return u.zeroAttempts(a)
	}
	return false
}

// endlessBackoff reports whether MaxElapsedTime is set to 0 and nothing else sets a limit.
// Version 5 has a context in each call.
func (u *unit) endlessBackoff(a *attempt) bool {
	if strings.HasSuffix(callee(u.TypesInfo, a.call).Pkg().Path(), "/v5") || u.has(a.in, "WithContext", "WithMaxRetries", "Permanent") {
		return false
	}
	return contains(a.in, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return false
		}
		for i, lhs := range assign.Lhs {
			if sel, ok := lhs.(*ast.SelectorExpr); ok && sel.Sel.Name == "MaxElapsedTime" && u.isZero(assign.Rhs[i]) {
				return true
			}
		}
		return false
	})
}

// zeroAttempts reports whether retry-go was told to have no limit, and given no context.
func (u *unit) zeroAttempts(a *attempt) bool {
	zero, ctx := false, false
	for _, arg := range a.call.Args {
		opt, ok := ast.Unparen(arg).(*ast.CallExpr)
		if !ok {
			ctx = ctx || !isLit(arg) // options... may have one
			continue
		}
		switch funcName(opt) {
		case "Attempts":
			zero = zero || len(opt.Args) == 1 && u.isZero(opt.Args[0])
		case "UntilSucceeded":
			zero = true
		case "Context":
			ctx = true
		}
	}
	return zero && !ctx
}

func isLit(e ast.Expr) bool {
	_, ok := ast.Unparen(e).(*ast.FuncLit)
	return ok
}

func (u *unit) isZero(e ast.Expr) bool {
	v := u.TypesInfo.Types[e].Value
	return v != nil && v.Kind() == constant.Int && constant.Sign(v) == 0
}

// has reports whether a function with one of the names is called.
func (s *source) has(n ast.Node, names ...string) bool {
	return contains(n, func(m ast.Node) bool {
		call, ok := m.(*ast.CallExpr)
		if !ok {
			return false
		}
		for _, name := range names {
			if funcName(call) == name {
				return true
			}
		}
		return false
	})
}

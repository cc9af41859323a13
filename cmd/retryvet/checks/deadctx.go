package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// DeadCtx reports attempts that are made with a context that has ended.
var DeadCtx = newCheck("deadctx", `report attempts with a context that has ended

A context with a timeout that is made before the loop is over for all later attempts once it is
over for one: they fail at once, and the loop waits between them for nothing. And a function
that gets a context for its attempt must not use the one around it, which ends later.`, deadCtx)

func deadCtx(u *unit) {
	for _, a := range u.attempts {
		switch {
		case a.lib != nil:
			u.deadLibrary(a)
		case a.kind != polling:
			u.deadLoop(a)
		}
	}
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				u.outerContext(n)
			case *ast.ForStmt:
				u.busy(n)
			}
			return true
		})
	}
}

// deadLoop reports a context with a timeout that is made before a loop and asked for by
// nothing in it but the attempts.
func (u *unit) deadLoop(a *attempt) {
	if u.asksContext(a.loop) || u.selective(a) {
		return
	}
	u.timeouts(a.in, a.loop.Pos(), func(call *ast.CallExpr, ctx *types.Var) {
		if u.usedOnlyByTries(a, ctx) {
			u.report(call, fmt.Sprintf("when %s is over, the loop goes on with attempts that fail at once: make it in the loop, or leave the loop when it is done", ctx.Name()))
		}
	})
}

// deadLibrary reports a context with a timeout that is made before a call of a library and known
// to the function alone that the library retries.
func (u *unit) deadLibrary(a *attempt) {
	if u.asksContext(a.body) || u.selectiveBody(a) || funcName(a.call) == "RetryOnConflict" { // the end of a context is none
		return
	}
	u.timeouts(a.in, a.call.Pos(), func(call *ast.CallExpr, ctx *types.Var) {
		used, known := mentions(u.TypesInfo, a.body, ctx), false
		ast.Inspect(a.in, func(n ast.Node) bool {
			if n == nil || n.Pos() >= a.call.End() || n.Pos() < call.End() || n == a.body {
				return n == nil || n != a.body && n.Pos() < a.call.End()
			}
			if c, ok := n.(*ast.CallExpr); ok && c != a.call {
				for _, arg := range c.Args { // WithContext(b, ctx)
					known = known || variable(u.TypesInfo, arg) == ctx
				}
			}
			return true
		})
		for _, arg := range a.call.Args {
			known = known || variable(u.TypesInfo, arg) == ctx
		}
		if used && !known {
			u.report(call, fmt.Sprintf("when %s is over, %s goes on with attempts that fail at once: make it in the function that is retried, or give it to %s", ctx.Name(), a.lib.name, a.lib.name))
		}
	})
}

// timeouts calls f for every context with a timeout that a function makes before a position.
func (u *unit) timeouts(body *ast.BlockStmt, before token.Pos, f func(*ast.CallExpr, *types.Var)) {
	own(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Pos() > before || len(assign.Rhs) != 1 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		ctx := variable(u.TypesInfo, assign.Lhs[0])
		switch calleeName(u.TypesInfo, call) {
		case "context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause":
			if ctx != nil {
				f(call, ctx)
			}
		}
		return true
	})
}

// busy reports a loop without an end that goes round at once when a call says that its time is
// over, if it was the caller's time.
func (u *unit) busy(loop *ast.ForStmt) {
	if loop.Cond != nil || u.asksEnd(loop) {
		return
	}
	own(loop.Body, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok || len(branch.Body.List) == 0 || !u.isDeadline(branch.Cond) {
			return true
		}
		last, ok := branch.Body.List[len(branch.Body.List)-1].(*ast.BranchStmt)
		if !ok || last.Tok != token.CONTINUE || last.Label != nil || u.pausesIn(branch.Body) {
			return true
		}
		if ctx := u.contextOf(loop, branch); ctx != nil {
			u.report(last, fmt.Sprintf("when %s is over, this loop goes round without a wait and without an end: leave it when %s is done", ctx.Name(), ctx.Name()))
		}
		return true
	})
}

// asksEnd reports whether a loop asks whether a context is done: naming the error is not enough.
func (u *unit) asksEnd(n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		call, ok := m.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "Done" || sel.Sel.Name == "Err" || sel.Sel.Name == "Deadline") &&
			isContext(u.TypesInfo.TypeOf(sel.X)) || calleeName(u.TypesInfo, call) == "context.Cause"
	})
}

// isDeadline reports whether a condition holds for context.DeadlineExceeded, and needs nothing
// else.
func (u *unit) isDeadline(cond ast.Expr) bool {
	switch cond := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		if cond.Op == token.LOR {
			return u.isDeadline(cond.X) || u.isDeadline(cond.Y)
		}
		return cond.Op == token.EQL && (u.namesDeadline(cond.X) || u.namesDeadline(cond.Y))
	case *ast.CallExpr:
		return calleeName(u.TypesInfo, cond) == "errors.Is" && len(cond.Args) == 2 && u.namesDeadline(cond.Args[1])
	}
	return false
}

func (u *unit) namesDeadline(e ast.Expr) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := u.TypesInfo.ObjectOf(sel.Sel)
	return obj != nil && obj.Name() == "DeadlineExceeded" && obj.Pkg() != nil &&
		(obj.Pkg().Path() == "context" || obj.Pkg().Path() == "google.golang.org/grpc/codes")
}

// pausesIn reports whether something in a block waits.
func (u *unit) pausesIn(body *ast.BlockStmt) bool {
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			return true
		case *ast.UnaryExpr:
			return n.Op == token.ARROW
		case *ast.CallExpr:
			return waiting.MatchString(funcName(n))
		}
		return false
	})
}

var waiting = regexp.MustCompile(`(?i)sleep|wait|pause|backoff`)

// contextOf returns the context that a loop was given and gives to the call before a branch, or
// nil.
func (u *unit) contextOf(loop *ast.ForStmt, branch *ast.IfStmt) *types.Var {
	var ctx *types.Var
	own(loop.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() > branch.Cond.Pos() || len(call.Args) == 0 || !returnsError(u.TypesInfo, call) {
			return true
		}
		ctx = nil
		v := variable(u.TypesInfo, call.Args[0])
		if v != nil && isContext(v.Type()) && v.Pos() < loop.Pos() && !u.endless(v, loop.End()) && !sets(u.TypesInfo, loop.Body, v) {
			ctx = v
		}
		return true
	})
	return ctx
}

// usedOnlyByTries reports whether a context is given to the attempts of a loop and to nothing
// else in it.
func (u *unit) usedOnlyByTries(a *attempt, ctx *types.Var) bool {
	tried, other := false, false
	ast.Inspect(a.loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, t := range a.tries {
				if n == t.call && mentions(u.TypesInfo, n, ctx) {
					tried = true
					return false
				}
			}
		case *ast.Ident:
			other = other || u.TypesInfo.ObjectOf(n) == ctx
		}
		return true
	})
	return tried && !other
}

var logs = regexp.MustCompile(`(?i)log|print|debug|info|warn|error|wrap|errorf|trace|fatal|fields?$|append|join|string|record|event|observe|report`)

// converts are names of functions that look into an error: status.FromError(err).
var converts = regexp.MustCompile(`^(From|As|Is|Code|Cause)`)

// selective reports whether the loop looks at what kind of error it was.
func (s *source) selective(a *attempt) bool {
	for _, t := range a.tries {
		if t.err != nil && contains(a.loop, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if n == t.call || logs.MatchString(funcName(n)) && !converts.MatchString(funcName(n)) {
					return false
				}
				for _, arg := range n.Args {
					if variable(s.pass.TypesInfo, arg) == t.err {
						return true
					}
				}
			case *ast.TypeAssertExpr:
				return variable(s.pass.TypesInfo, n.X) == t.err
			case *ast.BinaryExpr:
				x, y := n.X, n.Y
				if isNilExpr(s.pass.TypesInfo, x) || isNilExpr(s.pass.TypesInfo, y) {
					return false
				}
				return variable(s.pass.TypesInfo, x) == t.err || variable(s.pass.TypesInfo, y) == t.err
			}
			return false
		}) {
			return true
		}
	}
	return false
}

// outerContext reports the use of a context around a function that got its own.
func (u *unit) outerContext(call *ast.CallExpr) {
	if !u.derives(call) {
		return
	}
	outer := variable(u.TypesInfo, call.Args[0])
	if outer == nil || !isContext(outer.Type()) {
		return
	}
	lit, ok := ast.Unparen(call.Args[len(call.Args)-1]).(*ast.FuncLit)
	if !ok {
		return
	}
	params := u.signature(lit).Params()
	if params.Len() == 0 || !isContext(params.At(0).Type()) || params.At(0) == outer {
		return
	}
	if strings.HasPrefix(calleeName(u.TypesInfo, call), "k8s.io/") && params.At(0).Name() == "_" {
		return // what is begun in a poll may go on after it
	}
	own(lit.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && u.TypesInfo.Uses[id] == outer {
			u.report(id, id.Name+" is the context around the attempts: the attempt has one of its own, which ends with it")
		}
		return true
	})
}

// deriving are functions that give a function a context that may end before theirs.
var deriving = map[string]bool{
	self + ".Policy.Execute": true, self + ".Do": true,
	self + "/retrysql.InTx": true,
	"k8s.io/apimachinery/pkg/util/wait.PollUntilContextTimeout": true,
}

func (u *unit) derives(call *ast.CallExpr) bool {
	return len(call.Args) > 1 && deriving[unvendored(calleeName(u.TypesInfo, call))]
}

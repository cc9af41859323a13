package checks

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
)

// DeadCtx reports attempts that are made with a context that has ended.
var DeadCtx = newCheck("deadctx", `report attempts with a context that has ended

A context with a timeout that is made before the loop is over for all later attempts once it is
over for one: they fail at once, and the loop waits between them for nothing. And a function
that gets a context for its attempt must not use the one around it, which ends later.`, deadCtx)

func deadCtx(u *unit) {
	for _, a := range u.attempts {
		if a.loop != nil {
			u.deadLoop(a)
		}
	}
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				u.outerContext(call)
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
	own(a.in, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Pos() > a.loop.Pos() || len(assign.Rhs) != 1 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		name := calleeName(u.TypesInfo, call)
		ctx := variable(u.TypesInfo, assign.Lhs[0])
		if ctx == nil || name != "context.WithTimeout" && name != "context.WithDeadline" {
			return true
		}
		if u.usedOnlyByTries(a, ctx) {
			u.report(call, fmt.Sprintf("when %s is over, the loop goes on with attempts that fail at once: make it in the loop, or leave the loop when it is done", ctx.Name()))
		}
		return true
	})
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

// selective reports whether the loop looks at what kind of error it was.
func (s *source) selective(a *attempt) bool {
	for _, t := range a.tries {
		if t.err != nil && contains(a.loop, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if n == t.call || logs.MatchString(funcName(n)) {
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

package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// This file says which waits need ask no context, though there is one.

// between reports whether a wait is one between two attempts.
func (s *source) between(a *attempt, w wait) bool {
	return s.reached(a, w) && s.followed(a, w) && !s.inWork(a, w)
}

// reached reports whether a wait is reached at all: it may be for a context that is nil.
func (s *source) reached(a *attempt, w wait) bool {
	g := s.graph(a.in)
	start, ok := g.start(a.loop)
	return !ok || w.at.Pos() < a.body.Pos() || g.reaches(start, a.loop, scene{}, w.at)
}

// followed reports whether a loop can go round after a wait. If not, it is there for something else.
func (s *source) followed(a *attempt, w wait) bool {
	g := s.graph(a.in)
	at, ok := g.find(w.at)
	return !ok || w.at.Pos() < a.body.Pos() || g.walk(at, a.loop, scene{}, nil)&goesOn != 0
}

// inWork reports whether a loop that looks for something has got it before a wait, and works on it after
// that. Such a wait is a part of the work.
func (s *source) inWork(a *attempt, w wait) bool {
	if a.kind != polling {
		return false
	}
	var got []types.Object
	own(a.body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && assign.End() < w.node.Pos() && contains(assign, s.isCall) {
			for _, lhs := range assign.Lhs {
				if v := variable(s.pass.TypesInfo, lhs); v != nil && !isError(v.Type()) && !isDuration(v.Type()) && !isContext(v.Type()) && a.body.Pos() <= v.Pos() {
					got = append(got, v)
				}
			}
		}
		return true
	})
	return len(got) > 0 && contains(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && call.Pos() > w.node.End() && s.isCall(call) && !logs.MatchString(funcName(call)) && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			return mentions(s.pass.TypesInfo, arg, got...)
		})
	})
}

// isCall reports whether a node is a call that tells or does something.
func (s *source) isCall(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && s.tells(call)
}

// briefly reports whether a wait is of the shortest that are worth a finding, and the loop asks the
// context between them.
func (s *source) briefly(a *attempt, w wait) bool {
	d, ok := s.atMost(a, w.dur)
	return ok && d <= float64(shortWait) && s.asksContext(a.loop)
}

// stopsItself reports whether a channel or a flag tells a loop to stop, and no context is asked. A context
// is there for something else.
func (s *source) stopsItself(a *attempt) bool {
	return !s.asksContext(a.loop) && contains(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			from := channel(n.Comm)
			return from != nil && isDone(from) && exits(n.Body) && !isPlainBreak(n.Body[len(n.Body)-1])
		case *ast.IfStmt:
			return exits(n.Body.List) && slices.ContainsFunc(conjuncts(n.Cond), func(cond ast.Expr) bool {
				return !mentionsError(s.pass.TypesInfo, cond) && stops.MatchString(types.ExprString(cond))
			})
		}
		return false
	})
}

// isPlainBreak reports whether a statement is a break without a label, which leaves a select alone.
func isPlainBreak(stmt ast.Stmt) bool {
	branch, ok := stmt.(*ast.BranchStmt)
	return ok && branch.Label == nil
}

// ended reports whether a wait is in what happens when a context has ended, or may have: it is deferred,
// or follows <-ctx.Done().
func (s *source) ended(a *attempt, w wait) bool {
	around := a.in
	if a.decl != nil {
		around = a.decl.Body
	}
	in := func(n ast.Node) bool { return n.Pos() <= w.node.Pos() && w.node.End() <= n.End() }
	return contains(around, func(n ast.Node) bool {
		if !in(n) || n == w.node {
			return false
		}
		switch n := n.(type) {
		case *ast.DeferStmt:
			return true
		case *ast.CommClause:
			return s.isEnd(n.Comm)
		case *ast.IfStmt:
			return in(n.Body) && s.saysEnded(n.Cond)
		case *ast.BlockStmt:
			return slices.ContainsFunc(n.List, func(stmt ast.Stmt) bool { return stmt.End() <= a.loop.Pos() && s.isEnd(stmt) })
		}
		return false
	})
}

// isEnd reports whether a statement waits for the end of a context, or of something else that it goes
// on after in the same way.
func (s *source) isEnd(stmt ast.Stmt) bool {
	if sel, ok := stmt.(*ast.SelectStmt); ok {
		return slices.ContainsFunc(sel.Body.List, func(clause ast.Stmt) bool {
			comm := clause.(*ast.CommClause)
			return len(comm.Body) == 0 && s.isEnd(comm.Comm)
		})
	}
	call, ok := ast.Unparen(orNil(channel(stmt))).(*ast.CallExpr)
	return ok && calleeName(s.pass.TypesInfo, call) == "context.Context.Done"
}

// saysEnded reports whether a condition holds only of a context that has ended: ctx.Err() != nil.
func (s *source) saysEnded(cond ast.Expr) bool {
	neq, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || neq.Op != token.NEQ || !isNilExpr(s.pass.TypesInfo, neq.Y) {
		return false
	}
	call, ok := ast.Unparen(neq.X).(*ast.CallExpr)
	return ok && calleeName(s.pass.TypesInfo, call) == "context.Context.Err"
}

// near reports whether a context is a parameter of the function with a loop, or is used in the loop.
// Another may be there for something else.
func (s *source) near(a *attempt, ctx string) bool {
	name, _, _ := strings.Cut(ctx, ".")
	v := s.lookup(name, a.loop.Pos())
	if v == nil {
		return false
	}
	param, ok := v.(*types.Var)
	return ok && isParam(a.sig, param) || mentions(s.pass.TypesInfo, a.loop, v)
}

// loggers are names of functions that take a logger out of a context.
var loggers = regexp.MustCompile(`(?i)^[GL]$|log|^fromcontext$|trace|debug|info|warn|error`)

// outlives reports whether a loop runs in a goroutine that takes nothing but a logger out of the
// context around it: the context may be there for the start alone.
func (s *source) outlives(a *attempt, ctx string) bool {
	name, _, _ := strings.Cut(ctx, ".")
	v, ok := s.lookup(name, a.loop.Pos()).(*types.Var)
	if !ok || a.decl == nil || v.Pos() >= a.in.Pos() || !starts(a.decl.Body, a.in) {
		return false
	}
	is := func(e ast.Expr) bool { return variable(s.pass.TypesInfo, e) == v }
	return !contains(a.in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !loggers.MatchString(funcName(n)) && slices.ContainsFunc(n.Args, is)
		case *ast.SelectorExpr:
			return is(n.X)
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Rhs, is)
		}
		return false
	})
}

// starts reports whether code starts a goroutine with this body.
func starts(code, body *ast.BlockStmt) bool {
	return contains(code, func(n ast.Node) bool {
		stmt, ok := n.(*ast.GoStmt)
		if !ok {
			return false
		}
		lit, ok := ast.Unparen(stmt.Call.Fun).(*ast.FuncLit)
		return ok && lit.Body == body
	})
}

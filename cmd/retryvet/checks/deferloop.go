package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

// DeferLoop reports a defer that piles up while a loop retries.
var DeferLoop = newCheck("deferloop", `report a defer in a loop that retries

What is deferred in a loop runs when the function returns. Each failed attempt leaves its
response, its transaction or its timer open until the last attempt is over. A defer that only
an attempt that ends the loop gets to is in order, and not reported.`, func(u *unit) {
	for _, a := range u.attempts {
		if a.loop == nil || a.kind == polling {
			continue
		}
		g := u.graph(a.in)
		own(a.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				return false
			case *ast.DeferStmt:
				at, ok := g.find(n)
				if ok && !once(u.TypesInfo, a, n) && g.walk(at, a.loop, g.known(a, n), nil)&goesOn != 0 {
					u.report(n, "deferred in a loop that retries: what failed attempts leave open piles up until the function returns")
				}
			}
			return true
		})
	}
})

// known returns what is known of the outcome where a statement is: one that no error gets to has none.
func (g *graph) known(a *attempt, stmt ast.Stmt) scene {
	for _, t := range a.tries {
		if t.err != nil && t.call.End() < stmt.Pos() && !g.reaches(t.at, a.loop, t.failsWith(), stmt) {
			return scene{try: t, nilErr: isNil}
		}
	}
	return scene{}
}

// once reports whether a statement runs in one iteration alone: behind if try == 0, or behind a
// variable that is set beside it.
func once(info *types.Info, a *attempt, stmt ast.Stmt) bool {
	found := false
	own(a.body, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok || stmt.Pos() < branch.Body.Pos() || branch.Body.End() < stmt.End() {
			return true
		}
		for _, cond := range conjuncts(branch.Cond) {
			if eq, ok := cond.(*ast.BinaryExpr); ok && eq.Op == token.EQL {
				v, n := variable(info, eq.X), info.Types[eq.Y].Value
				found = found || v != nil && n != nil && n.Kind() == constant.Int
			}
			if v := variable(info, asked(cond)); v != nil && !isError(v.Type()) && v.Pos() < a.loop.Pos() {
				found = found || sets(info, branch.Body, v)
			}
		}
		return true
	})
	return found
}

// conjuncts returns the conditions that all hold where a condition does.
func conjuncts(cond ast.Expr) []ast.Expr {
	cond = ast.Unparen(cond)
	if and, ok := cond.(*ast.BinaryExpr); ok && and.Op == token.LAND {
		return append(conjuncts(and.X), conjuncts(and.Y)...)
	}
	return []ast.Expr{cond}
}

// asked returns the operand of a condition: x of !x and of x == nil.
func asked(cond ast.Expr) ast.Expr {
	switch cond := cond.(type) {
	case *ast.UnaryExpr:
		return cond.X
	case *ast.BinaryExpr:
		return cond.X
	}
	return cond
}

// sets reports whether code sets a variable.
func sets(info *types.Info, n ast.Node, v *types.Var) bool {
	return contains(n, func(m ast.Node) bool {
		assign, ok := m.(*ast.AssignStmt)
		if !ok {
			return false
		}
		for _, lhs := range assign.Lhs {
			if variable(info, lhs) == v {
				return true
			}
		}
		return false
	})
}

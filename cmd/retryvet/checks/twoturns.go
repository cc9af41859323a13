package checks

import (
	"go/ast"
	"go/token"
	"go/types"
)

// TwoTurns reports a Quota that both a Worker and the Transport of its requests ask.
var TwoTurns = newCheck("twoturns", `report a Quota of both a retrytable.Worker and a retryhttp.Transport

A job takes a turn of the Quota before it runs, and its request takes another: the limit is used up
twice as fast. Give the Quota to one of the two.`, func(u *unit) {
	workers := map[types.Object]bool{}
	u.quotas("retrytable", "Worker", func(_ ast.Expr, quota types.Object) { workers[quota] = true })
	u.quotas("retryhttp", "Transport", func(at ast.Expr, quota types.Object) {
		if workers[quota] {
			u.report(at, "a job of the Worker needs two turns of this Quota, one for itself and one for its request: leave it out of one of the two policies")
		}
	})
})

// quotas calls f for the Quota in the policy of every literal of a type of this library.
func (u *unit) quotas(pkg, name string, f func(at ast.Expr, quota types.Object)) {
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			t := u.TypesInfo.TypeOf(lit)
			if t == nil || !isType(t, self+"/"+pkg, name) {
				return true
			}
			policy, ok := u.policyLiteral(field(lit, "Policy"))
			if !ok {
				return true
			}
			at := field(policy, "Quota")
			if sel, ok := at.(*ast.SelectorExpr); ok {
				f(at, u.TypesInfo.ObjectOf(sel.Sel))
			} else if v := variable(u.TypesInfo, at); v != nil {
				f(at, v)
			}
			return true
		})
	}
}

// field returns the value of a field in a literal, or nil.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, elt := range lit.Elts {
		if kv, ok := elt.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return kv.Value
			}
		}
	}
	return nil
}

// policyLiteral returns the literal that an expression is, points to, or names.
func (u *unit) policyLiteral(e ast.Expr) (*ast.CompositeLit, bool) {
	e = ast.Unparen(orNil(e))
	if ref, ok := e.(*ast.UnaryExpr); ok && ref.Op == token.AND {
		e = ast.Unparen(ref.X)
	}
	if v := variable(u.TypesInfo, e); v != nil {
		for _, file := range u.files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for i, lhs := range n.Lhs {
						if len(n.Lhs) == len(n.Rhs) && variable(u.TypesInfo, lhs) == v {
							e = n.Rhs[i]
						}
					}
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if len(n.Names) == len(n.Values) && u.TypesInfo.Defs[name] == v {
							e = n.Values[i]
						}
					}
				}
				return true
			})
		}
		if ref, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && ref.Op == token.AND {
			e = ref.X
		}
	}
	lit, ok := ast.Unparen(e).(*ast.CompositeLit)
	return lit, ok && isType(u.TypesInfo.TypeOf(lit), self, "Policy")
}

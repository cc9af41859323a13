package checks

import (
	"go/ast"
	"go/types"
)

// PolicyChange reports a retry.Policy that is changed while it is in use.
var PolicyChange = newCheck("policychange", `report a retry.Policy that is changed while it is in use

A Policy is shared by the calls under it and has no lock. The check reports a change in the
function that is retried under the policy, and of a policy of the package in a function other
than init and main. Copy the policy, and change the copy.`, func(u *unit) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			setup := f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main")
			ast.Inspect(f.Body, func(n ast.Node) bool {
				assign, ok := n.(*ast.AssignStmt)
				if !ok {
					return true
				}
				for _, lhs := range assign.Lhs {
					if v := u.changed(lhs); v != nil && (u.retriedUnder(v, assign) || !setup && v.Parent() == u.Pkg.Scope()) {
						u.report(lhs, "changes a policy that calls in progress share: change a copy")
					}
				}
				return true
			})
		}
	}
})

// changed returns the variable with the policy whose field is set, or nil.
func (u *unit) changed(lhs ast.Expr) *types.Var {
	sel, ok := lhs.(*ast.SelectorExpr)
	if !ok || !isType(u.TypesInfo.TypeOf(sel.X), self, "Policy") {
		return nil
	}
	return variable(u.TypesInfo, sel.X)
}

// retriedUnder reports whether a statement is in a function that is retried under a policy.
func (u *unit) retriedUnder(v *types.Var, stmt ast.Stmt) bool {
	for _, a := range u.attempts {
		if a.lit == nil || stmt.Pos() < a.lit.Pos() || a.lit.End() < stmt.End() {
			continue
		}
		if sel, ok := a.call.Fun.(*ast.SelectorExpr); ok && variable(u.TypesInfo, sel.X) == v {
			return true
		}
		if len(a.call.Args) > 2 && mentions(u.TypesInfo, a.call.Args[1], v) {
			return true
		}
	}
	return false
}

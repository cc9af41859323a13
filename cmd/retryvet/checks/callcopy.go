package checks

import (
	"go/ast"
	"go/token"
	"go/types"
)

// CallCopy reports a retry.Call that is copied after its first attempt.
var CallCopy = newCheck("callcopy", `report a retry.Call that is copied after its first attempt

A Call is one operation. A copy goes on with the attempts of the other, and shares its timer and
the context of its attempt. Pass a pointer. copylocks does not find this, because a Call has no
lock.`, func(u *unit) {
	for _, file := range u.files {
		started := map[*types.Var]token.Pos{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Next" || sel.Sel.Name == "Begin") {
					if v := u.callVar(sel.X); v != nil {
						started[v] = n.Pos()
					}
				}
				u.copies(started, n.Args...)
			case *ast.AssignStmt:
				u.copies(started, n.Rhs...)
			case *ast.ReturnStmt:
				u.copies(started, n.Results...)
			case *ast.ValueSpec:
				u.copies(started, n.Values...)
			case *ast.KeyValueExpr:
				u.copies(started, n.Value)
			}
			return true
		})
	}
})

// callVar returns the variable of type retry.Call that an expression names, or nil.
func (u *unit) callVar(e ast.Expr) *types.Var {
	v := variable(u.TypesInfo, e)
	if v == nil {
		return nil
	}
	if _, pointer := types.Unalias(v.Type()).(*types.Pointer); pointer || !isType(v.Type(), self, "Call") {
		return nil
	}
	return v
}

// copies reports the values that are Calls whose first attempt has begun.
func (u *unit) copies(started map[*types.Var]token.Pos, values ...ast.Expr) {
	for _, e := range values {
		if v := u.callVar(e); v != nil && started[v].IsValid() {
			u.report(e, "copies a retry.Call whose attempts have begun: use a pointer")
		}
	}
}

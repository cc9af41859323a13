package checks

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
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

// CallEnd reports an attempt of a retry.Call that is not ended.
var CallEnd = newCheck("callend", `report an attempt of a retry.Call that is not ended

An attempt that was begun and not ended counts as lost: the error of the call says so, and not
what happened. Call End on every way to the next attempt, or Abort.`, func(u *unit) {
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					u.unended(n.Body)
				}
			case *ast.FuncLit:
				u.unended(n.Body)
			}
			return true
		})
	}
})

func (u *unit) unended(body *ast.BlockStmt) {
	own(body, func(n ast.Node) bool {
		loop, ok := n.(*ast.ForStmt)
		if !ok {
			return true
		}
		call, ok := ast.Unparen(orNil(loop.Cond)).(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Next" && sel.Sel.Name != "Begin" || !isType(u.TypesInfo.TypeOf(sel.X), self, "Call") {
			return true
		}
		v := variable(u.TypesInfo, sel.X)
		if v != nil && u.goesOnWithoutEnd(body, loop, v) {
			u.report(call, "an attempt may go on to the next without End, and counts as lost")
		}
		return true
	})
}

// goesOnWithoutEnd reports whether there is a way to the next attempt on which nothing is told
// how this one ended.
func (u *unit) goesOnWithoutEnd(body *ast.BlockStmt, loop *ast.ForStmt, v *types.Var) bool {
	g := u.graph(body)
	for _, b := range g.Blocks {
		if b.Stmt == loop && b.Kind == cfg.KindForBody {
			return g.walk(place{b, -1}, loop, scene{}, func(n ast.Node, _ scene) bool { return !u.ends(n, v) })&goesOn != 0
		}
	}
	return false
}

// ends reports whether a node ends the attempt of a Call, or gives the Call away.
func (u *unit) ends(n ast.Node, v *types.Var) bool {
	return contains(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.SelectorExpr:
			name := m.Sel.Name
			return variable(u.TypesInfo, m.X) == v && (name == "End" || name == "EndVerdict" || name == "Abort")
		case *ast.UnaryExpr:
			return variable(u.TypesInfo, m.X) == v
		case *ast.CallExpr:
			for _, arg := range m.Args {
				if variable(u.TypesInfo, arg) == v {
					return true
				}
			}
		}
		return false
	})
}

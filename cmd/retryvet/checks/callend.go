package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

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

package checks

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"
)

// variable returns the variable that an expression names, or nil.
func variable(info *types.Info, e ast.Expr) *types.Var {
	id, ok := ast.Unparen(orNil(e)).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := info.ObjectOf(id).(*types.Var)
	return v
}

func isNilExpr(info *types.Info, e ast.Expr) bool {
	tv, ok := info.Types[e]
	return ok && tv.IsNil()
}

// funcName returns the last name of what is called, "" if it has none.
func funcName(call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// callee returns the function or method that is called, or nil.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(info, call).(*types.Func)
	return f
}

// calleeName returns the full name of what is called: "time.Sleep", or for a method
// "net/http.Client.Do". It is "" if that is not known.
func calleeName(info *types.Info, call *ast.CallExpr) string {
	f := callee(info, call)
	if f == nil || f.Pkg() == nil {
		return ""
	}
	return f.Pkg().Path() + "." + localName(f)
}

// localName returns the name of a function or method in its package: "Sleep", "Client.Do".
func localName(f *types.Func) string {
	if recv := receiver(f); recv != "" {
		return recv + "." + f.Name()
	}
	return f.Name()
}

// receiver returns the name of the type whose method f is.
func receiver(f *types.Func) string {
	sig := f.Signature()
	if sig.Recv() == nil {
		return ""
	}
	t := sig.Recv().Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// isType reports whether t, or what it points to, is the named type.
func isType(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}

var errorType = types.Universe.Lookup("error").Type()

func isError(t types.Type) bool { return t != nil && types.Identical(t, errorType) }

func isContext(t types.Type) bool {
	if _, pointer := t.(*types.Pointer); pointer {
		return false
	}
	return isType(t, "context", "Context")
}

func isDuration(t types.Type) bool { return isType(t, "time", "Duration") }

// mentions reports whether a node has an identifier of one of the objects.
func mentions(info *types.Info, n ast.Node, objs ...types.Object) bool {
	return contains(n, func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		if !ok {
			return false
		}
		obj := info.ObjectOf(id)
		for _, o := range objs {
			if obj != nil && obj == o {
				return true
			}
		}
		return false
	})
}

// contains reports whether a node or one in it has a property.
func contains(n ast.Node, has func(ast.Node) bool) bool {
	found := false
	if n == nil {
		return false
	}
	ast.Inspect(n, func(m ast.Node) bool {
		if m != nil && !found && has(m) {
			found = true
		}
		return !found
	})
	return found
}

// own calls f for every node of a body that runs with it: functions in it are left out. f
// returns false to leave out what is in a node.
func own(body ast.Node, f func(ast.Node) bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok && n != body {
			return false
		}
		return n == nil || f(n)
	})
}

// exits reports whether statements end with a return, or with a break of what is around them.
func exits(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok == token.BREAK
	}
	return false
}

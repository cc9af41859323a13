package checks

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// selectFix makes a select of a wait: a call of time.Sleep, or a receive from time.After. There
// is none unless the result certainly compiles, and belongs where it is written. The duration
// and its comments stay as they are: the fix only writes around them.
func (u *unit) selectFix(a *attempt, w wait, ctx string) []analysis.SuggestedFix {
	stmt, ok := w.node.(*ast.ExprStmt)
	results := a.sig.Results()
	if !ok || w.dur == nil || results.Len() != 1 || !isError(results.At(0).Type()) ||
		!inList(a.body, stmt) || !u.usable(a, ctx, stmt.Pos()) {
		return nil
	}
	src := u.editable(stmt.Pos())
	if src == nil {
		return nil
	}
	head := analysis.TextEdit{Pos: stmt.Pos(), End: stmt.Pos()}
	receive := ""
	if call, ok := ast.Unparen(stmt.X).(*ast.CallExpr); ok {
		name := u.sleepName(call)
		if name == nil {
			return nil
		}
		head.End = name.End()
		receive = "<-" + string(src[u.offset(stmt.Pos()):u.offset(name.Pos())]) + "After"
	}
	end := "\n"
	if bytes.Contains(src, []byte("\r\n")) {
		end = "\r\n"
	}
	end += indent(src[:u.offset(stmt.Pos())])
	head.NewText = []byte("select {" + end + "case <-" + ctx + ".Done():" + end + "\treturn " + ctx + ".Err()" + end + "case " + receive)
	tail := analysis.TextEdit{Pos: stmt.End(), End: stmt.End(), NewText: []byte(":" + end + "}")}
	return []analysis.SuggestedFix{{Message: "wait for the context too", TextEdits: []analysis.TextEdit{head, tail}}}
}

// sleepName returns the identifier Sleep in a call of time.Sleep, or of the Sleep of a clock, if
// After in its place is a function that does what time.After does. With a dot import, After may be
// something else, and a function of the package that only sleeps has none.
func (s *source) sleepName(call *ast.CallExpr) *ast.Ident {
	ofTime := calleeName(s.pass.TypesInfo, call) == "time.Sleep"
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		ofClock := fun.Sel.Name == "Sleep" && s.decl(callee(s.pass.TypesInfo, call)) == nil
		if ofTime || ofClock && s.hasAfter(fun.X) {
			return fun.Sel
		}
	case *ast.Ident:
		if !ofTime {
			return nil
		}
		after, ok := s.lookup("After", fun.Pos()).(*types.Func)
		if ok && after.Pkg().Path() == "time" {
			return fun
		}
	}
	return nil
}

// hasAfter reports whether an expression is a clock with the method After.
func (s *source) hasAfter(clock ast.Expr) bool {
	t := s.pass.TypesInfo.TypeOf(clock)
	if t == nil {
		return false
	}
	obj, _, _ := types.LookupFieldOrMethod(t, true, s.pass.Pkg, "After")
	after, ok := obj.(*types.Func)
	if !ok || after.Signature().Params().Len() != 1 || !isDuration(after.Signature().Params().At(0).Type()) || after.Signature().Results().Len() != 1 {
		return false
	}
	_, ok = after.Signature().Results().At(0).Type().Underlying().(*types.Chan)
	return ok
}

// inList reports whether a statement is one of a list or has a label. A select cannot be in
// the header of an if or of a switch.
func inList(body *ast.BlockStmt, stmt ast.Stmt) bool {
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			return slices.Contains(n.List, stmt)
		case *ast.CaseClause:
			return slices.Contains(n.Body, stmt)
		case *ast.CommClause:
			return slices.Contains(n.Body, stmt)
		case *ast.LabeledStmt:
			return n.Stmt == stmt
		}
		return false
	})
}

// usable reports whether an expression of contextAt means the same at pos, and is certainly a
// context: a variable that was set, and not compared with nil.
func (s *source) usable(a *attempt, ctx string, pos token.Pos) bool {
	name, rest, _ := strings.Cut(ctx, ".")
	v, ok := s.lookup(name, pos).(*types.Var)
	if !ok || rest != "" && v.Pos() >= a.loop.Pos() || rest == "Context()" && v.Kind() != types.ParamVar {
		return false
	}
	return !contains(s.fileAt(pos), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec: // var ctx context.Context
			return len(n.Values) == 0 && slices.ContainsFunc(n.Names, func(id *ast.Ident) bool { return s.pass.TypesInfo.Defs[id] == v })
		case *ast.BinaryExpr:
			isCtx := func(e ast.Expr) bool { return types.ExprString(e) == ctx && mentions(s.pass.TypesInfo, e, v) }
			return isNilExpr(s.pass.TypesInfo, n.Y) && isCtx(n.X) || isNilExpr(s.pass.TypesInfo, n.X) && isCtx(n.Y)
		}
		return false
	})
}

// lookup returns what a name means at pos, or nil.
func (s *source) lookup(name string, pos token.Pos) types.Object {
	_, obj := s.pass.Pkg.Scope().Innermost(pos).LookupParent(name, pos)
	return obj
}

func (s *source) fileAt(pos token.Pos) *ast.File {
	i := slices.IndexFunc(s.pass.Files, func(f *ast.File) bool { return f.FileStart <= pos && pos < f.FileEnd })
	return s.pass.Files[i]
}

// editable returns the text of the file with pos, or nil if the file is not one to edit: it belongs
// to a dependency, or something else is the source of it or of this line, as with cgo.
func (s *source) editable(pos token.Pos) []byte {
	if m := s.pass.Module; m != nil && m.Version != "" && (m.Replace == nil || m.Replace.Version != "") {
		return nil
	}
	file := s.pass.Fset.File(pos)
	if isGenerated(s.fileAt(pos)) || s.pass.Fset.Position(pos) != s.pass.Fset.PositionFor(pos, false) {
		return nil
	}
	src, err := s.pass.ReadFile(file.Name())
	if err != nil || len(src) != file.Size() {
		return nil
	}
	return src
}

func (s *source) offset(pos token.Pos) int { return s.pass.Fset.File(pos).Offset(pos) }

// indent returns the spaces with which the last line of a text begins.
func indent(text []byte) string {
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

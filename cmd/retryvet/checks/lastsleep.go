package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/cfg"
)

// LastSleep reports a wait after which no attempt follows.
var LastSleep = newCheck("lastsleep", `report a wait after the last attempt

A loop that counts attempts and waits at its end waits once more after the last of them, and
returns the error that it has had since before the wait.`, lastSleep)

func lastSleep(u *unit) {
	for _, a := range u.attempts {
		if a.loop == nil || a.kind == reconnecting {
			continue
		}
		counters, ok := u.counters(a)
		if !ok || u.triesAfter(a) || u.breaks(a) && !u.tellsOutcome(a) {
			continue
		}
		counters = append(counters, u.computed(a, counters)...)
		for _, w := range a.waits {
			if u.short(a, w) || a.kind == polling && !u.givesUp(a) {
				continue
			}
			if u.afterLast(a, w, counters) {
				u.report(w.node, "waits after the last attempt too, when nothing is left to wait for")
			}
		}
	}
}

// givesUp reports whether a loop that looks for something is followed by what happens when it is
// not so. If the function goes on either way, the last wait may have helped.
func (s *source) givesUp(a *attempt) bool {
	next := s.next(a)
	switch next := next.(type) {
	case *ast.ReturnStmt, *ast.IfStmt:
		return true
	case *ast.ExprStmt:
		call, ok := next.X.(*ast.CallExpr)
		return ok && (!mayReturn(s.pass.TypesInfo, call) || logs.MatchString(funcName(call)))
	}
	return false
}

// breaks reports whether a loop that has found what it looks for goes on to what follows it.
func (s *source) breaks(a *attempt) bool {
	for _, b := range s.graph(a.in).Blocks {
		if !b.Live || b.Stmt == a.loop && head(b, a.loop) {
			continue
		}
		if slices.ContainsFunc(b.Succs, func(to *cfgBlock) bool {
			return to.Stmt == a.loop && (to.Kind == cfg.KindForDone || to.Kind == cfg.KindRangeDone)
		}) {
			return true
		}
	}
	return false
}

// tellsOutcome reports whether what follows a loop can know how it ended: by a variable that the loop
// has set. If not, the function goes on either way, and the last wait may have helped.
func (s *source) tellsOutcome(a *attempt) bool {
	var set []types.Object
	add := func(e ast.Expr) {
		if v := root(s.pass.TypesInfo, e); v != nil && v.Pos() < a.loop.Pos() {
			set = append(set, v)
		}
	}
	ast.Inspect(a.loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				add(lhs)
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(n.X)
			}
		}
		return true
	})
	return len(set) > 0 && contains(a.in, func(n ast.Node) bool {
		if ret, ok := n.(*ast.ReturnStmt); ok && ret.Pos() > a.loop.End() && len(ret.Results) == 0 && a.sig.Results().Len() > 0 {
			return true // by name
		}
		id, ok := n.(*ast.Ident)
		return ok && id.Pos() > a.loop.End() && slices.Contains(set, s.pass.TypesInfo.Uses[id])
	})
}

// next returns the statement after a loop, or nil.
func (s *source) next(a *attempt) ast.Stmt {
	var next ast.Stmt
	ast.Inspect(a.in, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		for i := 0; i+1 < len(block.List); i++ {
			stmt := block.List[i]
			if labeled, ok := stmt.(*ast.LabeledStmt); ok {
				stmt = labeled.Stmt
			}
			if stmt == a.loop {
				next = block.List[i+1]
			}
		}
		return true
	})
	return next
}

// counters returns the variables that say how many attempts are left. It returns false if the
// loop does not end by a count.
func (s *source) counters(a *attempt) ([]types.Object, bool) {
	info := s.pass.TypesInfo
	var counters []types.Object
	add := func(e ast.Expr) {
		if v := variable(info, e); v != nil {
			counters = append(counters, v)
		}
	}
	switch loop := a.loop.(type) {
	case *ast.RangeStmt:
		add(loop.Key)
		add(loop.Value)
		return counters, isCounted(info.TypeOf(loop.X))
	case *ast.ForStmt:
		cond, ok := ast.Unparen(orNil(loop.Cond)).(*ast.BinaryExpr)
		if !ok || !isOrder(cond.Op) && cond.Op != token.NEQ {
			return nil, false
		}
		for _, e := range []ast.Expr{cond.X, cond.Y} {
			if v := variable(info, e); v != nil && s.counts(loop, v) {
				return []types.Object{v}, true
			}
		}
	}
	return nil, false
}

// counts reports whether each iteration of a loop counts with a variable.
func (s *source) counts(loop *ast.ForStmt, v *types.Var) bool {
	steps := append([]ast.Stmt{loop.Post}, loop.Body.List...)
	for _, stmt := range steps {
		switch step := stmt.(type) {
		case *ast.IncDecStmt:
			if variable(s.pass.TypesInfo, step.X) == v {
				return true
			}
		case *ast.AssignStmt:
			if (step.Tok == token.ADD_ASSIGN || step.Tok == token.SUB_ASSIGN) && variable(s.pass.TypesInfo, step.Lhs[0]) == v &&
				!isDuration(v.Type()) {
				return true
			}
		}
	}
	return false
}

// computed returns the variables of a loop that a function made of the count: it may say that
// there is nothing more to wait for.
func (s *source) computed(a *attempt, counters []types.Object) []types.Object {
	var vars []types.Object
	own(a.body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return true
		}
		call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !ok || len(call.Args) < 2 && len(assign.Lhs) < 2 || len(counters) == 0 ||
			!mentions(s.pass.TypesInfo, call, counters...) {
			return true
		}
		for _, lhs := range assign.Lhs {
			if v := variable(s.pass.TypesInfo, lhs); v != nil && !isError(v.Type()) {
				vars = append(vars, v)
			}
		}
		return true
	})
	return vars
}

// isCounted reports whether a range over t is a count or a list of waits.
func isCounted(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsInteger != 0
	case *types.Slice:
		return isDuration(t.Elem())
	case *types.Array:
		return isDuration(t.Elem())
	}
	return false
}

// triesAfter reports whether a loop is followed by another attempt.
func (s *source) triesAfter(a *attempt) bool {
	names := map[string]bool{}
	for _, t := range a.tries {
		names[funcName(t.call)] = true
	}
	return contains(a.in, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && call.Pos() > a.loop.End() && names[funcName(call)]
	})
}

// afterLast reports whether a wait follows an attempt also in the last iteration. Whatever asks
// for the count on the way to the wait may have left the loop.
func (s *source) afterLast(a *attempt, w wait, counters []types.Object) bool {
	g := s.graph(a.in)
	for _, t := range a.tries {
		reached := false
		for _, sc := range t.fails {
			g.walk(t.at, a.loop, sc, func(n ast.Node, _ scene) bool {
				if n.Pos() >= w.at.Pos() && n.End() <= w.at.End() {
					reached = true
					return false
				}
				return !s.asksCount(n, counters)
			})
		}
		if reached && !s.asksCountAround(a, w, counters) {
			return s.waitedFor(a, w, t)
		}
	}
	return false
}

// asksCount reports whether a node is a condition about the count.
func (s *source) asksCount(n ast.Node, counters []types.Object) bool {
	e, ok := n.(ast.Expr)
	if !ok {
		return false
	}
	t := s.pass.TypesInfo.TypeOf(e)
	if t == nil || len(counters) == 0 {
		return false
	}
	return mentions(s.pass.TypesInfo, n, counters...)
}

// asksCountAround reports whether a wait depends on the count in another way.
func (s *source) asksCountAround(a *attempt, w wait, counters []types.Object) bool {
	around := false
	own(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			inside := n.Pos() <= w.node.Pos() && w.node.End() <= n.End()
			around = around || inside && len(counters) > 0 && mentions(s.pass.TypesInfo, n.Cond, counters...)
		case *ast.SwitchStmt:
			around = around || n.Pos() <= w.node.Pos() && w.node.End() <= n.End() && s.switchAsks(n, counters)
		}
		return true
	})
	return around
}

// switchAsks reports whether a switch is about the count.
func (s *source) switchAsks(sw *ast.SwitchStmt, counters []types.Object) bool {
	asks := func(e ast.Expr) bool { return len(counters) > 0 && mentions(s.pass.TypesInfo, e, counters...) }
	return sw.Tag != nil && asks(sw.Tag) || slices.ContainsFunc(sw.Body.List, func(clause ast.Stmt) bool {
		return slices.ContainsFunc(clause.(*ast.CaseClause).List, asks)
	})
}

// waitedFor reports whether nothing but the next iteration follows the wait. In a loop that
// waits and then looks, the wait is not in vain. A wait before a return is another kind of wait.
func (s *source) waitedFor(a *attempt, w wait, t *try) bool {
	var next place
	g := s.graph(a.in)
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			if n.Pos() >= w.at.Pos() && n.End() <= w.at.End() {
				next = place{b, i}
			}
		}
	}
	if next.block == nil {
		return false
	}
	working := false
	ends := g.walk(next, a.loop, scene{}, func(n ast.Node, _ scene) bool {
		if clause := elsewhere(w, n); clause != nil {
			return n == clause.Comm // in the block before the clauses; the path goes on with that of the wait
		}
		working = working || contains(n, func(m ast.Node) bool {
			call, ok := m.(*ast.CallExpr)
			return ok && (call == t.call || returnsError(s.pass.TypesInfo, call) && !s.asksContext(call))
		})
		return !working
	})
	return !working && ends&goesOn != 0
}

// elsewhere returns the clause of a select that a node is in, if it is not that of the wait. In
// a graph, all clauses follow what any of them waits for.
func elsewhere(w wait, n ast.Node) *ast.CommClause {
	sel, ok := w.node.(*ast.SelectStmt)
	if !ok {
		return nil
	}
	for _, stmt := range sel.Body.List {
		clause := stmt.(*ast.CommClause)
		if clause.Comm != w.at && clause.Pos() <= n.Pos() && n.End() <= clause.End() {
			return clause
		}
	}
	return nil
}

func returnsError(info *types.Info, call *ast.CallExpr) bool {
	switch t := info.TypeOf(call).(type) {
	case *types.Tuple:
		return t.Len() > 0 && isError(t.At(t.Len()-1).Type())
	default:
		return isError(t)
	}
}

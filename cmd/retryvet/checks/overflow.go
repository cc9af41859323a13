package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// Overflow reports a backoff that overflows before it is capped.
var Overflow = newCheck("overflow", `report a backoff that overflows before it is capped

1 << n and math.Pow(2, n) leave the range of a duration after some dozens of failures. The
result is negative or zero, passes the cap that follows, and the loop does not wait any more.`, overflow)

func overflow(u *unit) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				if f.Body != nil {
					u.overflows(f.Body)
				}
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool { // var delay = func…
				lit, ok := n.(*ast.FuncLit)
				if ok {
					u.overflows(lit.Body)
				}
				return !ok
			})
		}
	}
}

// power is an expression that grows exponentially with a count.
type power struct {
	expr  ast.Expr   // all of it, as a duration or a number
	count ast.Expr   // the exponent
	float bool       // by math.Pow
	to    *types.Var // the variable it is assigned to, or nil
}

func (u *unit) overflows(body *ast.BlockStmt) {
	for _, p := range u.powers(body) {
		if u.boundedBefore(body, p) || u.stopsGrowing(body, p) || !u.isWait(body, p) {
			continue
		}
		if u.cappedAfter(body, p) {
			u.report(p.expr, "overflows before it is capped: bound the exponent first")
		} else if p.float && u.growsInLoop(p) {
			u.report(p.expr, "grows without a bound, and overflows in the end")
		}
	}
}

// powers returns the largest expressions with a shift or a power, and where they go.
func (u *unit) powers(body *ast.BlockStmt) []power {
	var found []power
	ast.PreorderStack(body, nil, func(n ast.Node, around []ast.Node) bool {
		if p, ok := u.power(n); ok {
			found = append(found, u.widest(append(around, n), p))
		}
		return true
	})
	return found
}

// power returns what grows by itself: 1 << n, or math.Pow(2, n).
func (u *unit) power(n ast.Node) (power, bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.SHL && u.TypesInfo.Types[n.Y].Value == nil && u.isSmall(n.X) {
			return power{count: n.Y}, true
		}
	case *ast.CallExpr:
		switch calleeName(u.TypesInfo, n) {
		case "math.Pow":
			base := u.TypesInfo.Types[n.Args[0]].Value
			if u.TypesInfo.Types[n.Args[1]].Value == nil && (base == nil || constant.Compare(base, token.GTR, constant.MakeInt64(1))) {
				return power{count: n.Args[1], float: true}, true
			}
		case "math.Exp2", "math.Exp":
			return power{count: n.Args[0], float: true}, true
		}
	}
	return power{}, false
}

// isSmall reports whether what is shifted is a constant or a duration, and not a word whose bits
// are moved.
func (u *unit) isSmall(e ast.Expr) bool {
	return u.TypesInfo.Types[e].Value != nil || isDuration(u.TypesInfo.TypeOf(e))
}

// widest extends an expression to the arithmetic and the conversions around it.
func (u *unit) widest(stack []ast.Node, p power) power {
	i := len(stack) - 1
	for ; i > 0; i-- {
		up := stack[i-1]
		switch up := up.(type) {
		case *ast.ParenExpr:
			continue
		case *ast.BinaryExpr:
			if up.Op == token.MUL || up.Op == token.ADD || up.Op == token.SUB || up.Op == token.QUO {
				continue
			}
		case *ast.CallExpr:
			if u.TypesInfo.Types[up.Fun].IsType() && len(up.Args) == 1 {
				continue
			}
		}
		break
	}
	p.expr, _ = stack[i].(ast.Expr)
	if i == 0 {
		return p
	}
	switch up := stack[i-1].(type) {
	case *ast.AssignStmt:
		for j, rhs := range up.Rhs {
			if rhs == p.expr && len(up.Lhs) == len(up.Rhs) {
				p.to = variable(u.TypesInfo, up.Lhs[j])
			}
		}
	case *ast.ValueSpec:
		for j, rhs := range up.Values {
			if rhs == p.expr && j < len(up.Names) {
				p.to = variable(u.TypesInfo, up.Names[j])
			}
		}
	}
	return p
}

// isWait reports whether an expression is a duration, or a number that becomes one.
func (u *unit) isWait(body *ast.BlockStmt, p power) bool {
	if isDuration(u.TypesInfo.TypeOf(p.expr)) {
		return true
	}
	return p.to != nil && contains(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && len(call.Args) == 1 && call.Pos() > p.expr.End() && isDuration(u.TypesInfo.TypeOf(call)) &&
			u.TypesInfo.Types[call.Fun].IsType() && mentions(u.TypesInfo, call.Args[0], p.to)
	})
}

// boundedBefore reports whether something keeps the exponent or the power small: a comparison
// of the count, or one in floating point, which does not overflow.
func (u *unit) boundedBefore(body *ast.BlockStmt, p power) bool {
	counts := u.origins(body, u.objects(p.count))
	if len(counts) == 0 || contains(p.count, u.isMin) || contains(p.count, u.masks) || u.countsBelow(body, p) || u.leavesLoopAbove(body, p) || u.boundedByCallers(counts[0], 3) || u.boundedField(counts) {
		return true
	}
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := calleeName(u.TypesInfo, n)
			around := n.Pos() <= p.expr.Pos() && p.expr.End() <= n.End()
			return name == "math.Min" || u.isMin(n) && !around && mentions(u.TypesInfo, n, counts...) ||
				name == "math.IsInf" || name == "math/bits.LeadingZeros64"
		case *ast.BinaryExpr:
			return isOrder(n.Op) && u.bounds(n, p, counts)
		case *ast.IfStmt: // if n == most { return }
			return u.leavesAt(n, counts)
		case *ast.RangeStmt: // for n := range most
			v := variable(u.TypesInfo, n.Key)
			return v != nil && slices.Contains(counts, types.Object(v))
		case *ast.AssignStmt: // n %= 10, or i := n & 7
			masks := n.Tok == token.REM_ASSIGN || n.Tok == token.AND_ASSIGN || len(n.Rhs) == 1 && contains(n.Rhs[0], u.masks)
			return masks && mentions(u.TypesInfo, n.Lhs[0], counts...)
		}
		return false
	})
}

// masks reports whether a node leaves only the low bits of a count, or what is left of a division.
func (u *unit) masks(n ast.Node) bool {
	op, ok := n.(*ast.BinaryExpr)
	return ok && (op.Op == token.AND || op.Op == token.REM) && u.TypesInfo.Types[op.Y].Value != nil
}

// countsBelow reports whether a function counts only where the result is below a limit.
func (u *unit) countsBelow(body *ast.BlockStmt, p power) bool {
	counted, elsewhere := false, false
	ast.PreorderStack(body, nil, func(n ast.Node, around []ast.Node) bool {
		inc, ok := n.(*ast.IncDecStmt)
		if !ok || types.ExprString(inc.X) != types.ExprString(ast.Unparen(p.count)) {
			return true
		}
		below := p.to != nil && slices.ContainsFunc(around, func(up ast.Node) bool {
			branch, ok := up.(*ast.IfStmt)
			if !ok || inc.End() > branch.Body.End() {
				return false
			}
			cond, ok := ast.Unparen(branch.Cond).(*ast.BinaryExpr)
			return ok && (cond.Op == token.LSS || cond.Op == token.LEQ) && variable(u.TypesInfo, cond.X) == p.to
		})
		counted, elsewhere = counted || below, elsewhere || !below
		return true
	})
	return counted && !elsewhere
}

// leavesLoopAbove reports whether the power is one of a loop, which ends where it passes a limit.
func (u *unit) leavesLoopAbove(body *ast.BlockStmt, p power) bool {
	return p.to != nil && contains(body, func(n ast.Node) bool {
		loop, ok := n.(*ast.ForStmt)
		return ok && loop.Body.Pos() <= p.expr.Pos() && p.expr.End() <= loop.Body.End() && slices.ContainsFunc(loop.Body.List, func(stmt ast.Stmt) bool {
			branch, ok := stmt.(*ast.IfStmt)
			if !ok || branch.Pos() < p.expr.End() || !exits(branch.Body.List) {
				return false
			}
			cond, ok := ast.Unparen(branch.Cond).(*ast.BinaryExpr)
			return ok && (cond.Op == token.GTR || cond.Op == token.GEQ) && variable(u.TypesInfo, cond.X) == p.to
		})
	})
}

// leavesAt reports whether a branch is taken at a number of the count, and leaves the function or the
// loop.
func (u *unit) leavesAt(branch *ast.IfStmt, counts []types.Object) bool {
	return u.isAt(branch.Cond, counts) && exits(branch.Body.List)
}

// isAt reports whether a condition holds at a number of the count, whatever else holds.
func (u *unit) isAt(cond ast.Expr, counts []types.Object) bool {
	eq, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	switch {
	case ok && eq.Op == token.LOR:
		return u.isAt(eq.X, counts) || u.isAt(eq.Y, counts)
	case ok && eq.Op == token.EQL:
		count, n := variable(u.TypesInfo, eq.X), u.TypesInfo.Types[eq.Y].Value
		return count != nil && slices.Contains(counts, types.Object(count)) && (n == nil || isNumber(n) && !isLow(n))
	}
	return false
}

// stopsGrowing reports whether a function returns before the power if the wait before has reached a
// limit: the count goes no further then. The power is not computed from that wait.
func (u *unit) stopsGrowing(body *ast.BlockStmt, p power) bool {
	return slices.ContainsFunc(body.List, func(stmt ast.Stmt) bool {
		branch, ok := stmt.(*ast.IfStmt)
		if !ok || branch.End() > p.expr.Pos() || len(branch.Body.List) == 0 {
			return false
		}
		cond, ok := ast.Unparen(branch.Cond).(*ast.BinaryExpr)
		if !ok || cond.Op != token.GEQ && cond.Op != token.GTR {
			return false
		}
		before := variable(u.TypesInfo, cond.X)
		_, returns := branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt)
		return returns && before != nil && before.Kind() == types.ParamVar && isDuration(before.Type()) && !mentions(u.TypesInfo, p.expr, before)
	})
}

// origins adds what the variables of a count are computed from: n, of exponent := uint(n - 1).
func (u *unit) origins(body *ast.BlockStmt, counts []types.Object) []types.Object {
	for i := 0; i < len(counts); i++ {
		own(body, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != len(assign.Rhs) || assign.Tok != token.DEFINE && assign.Tok != token.ASSIGN {
				return true
			}
			for j, lhs := range assign.Lhs {
				if v := variable(u.TypesInfo, lhs); v == nil || v != counts[i] {
					continue
				}
				for _, origin := range u.objects(assign.Rhs[j]) {
					if !slices.Contains(counts, origin) {
						counts = append(counts, origin)
					}
				}
			}
			return true
		})
	}
	return counts
}

// boundedByCallers reports whether a count is a parameter of a function that only this package
// calls, and each caller bounds it, or passes on a parameter for which the same holds.
func (u *unit) boundedByCallers(count types.Object, depth int) bool {
	f, index := u.parameter(count)
	if f == nil || f.Exported() || depth == 0 {
		return false
	}
	calls, bounded := 0, 0
	for _, file := range u.files {
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || typeutil.Callee(u.TypesInfo, call) != f || index >= len(call.Args) {
					return true
				}
				calls++
				v := variable(u.TypesInfo, call.Args[index])
				if u.isBounded(call.Args[index], decl) || v != nil && v != count && u.boundedByCallers(v, depth-1) {
					bounded++
				}
				return true
			})
		}
	}
	return calls > 0 && calls == bounded
}

// boundedField reports whether the count is a field that this package compares with a limit.
func (u *unit) boundedField(counts []types.Object) bool {
	var fields []types.Object
	for _, count := range counts {
		if v, ok := count.(*types.Var); ok && v.IsField() {
			fields = append(fields, v)
		}
	}
	return len(fields) > 0 && slices.ContainsFunc(u.files, func(file *ast.File) bool {
		return contains(file, func(n ast.Node) bool {
			cond, ok := n.(*ast.BinaryExpr)
			return ok && isOrder(cond.Op) && mentions(u.TypesInfo, cond, fields...) && u.bounds(cond, power{}, fields)
		})
	})
}

// parameter returns the function or the variable with the function that a parameter belongs to,
// and its index.
func (u *unit) parameter(param types.Object) (f types.Object, index int) {
	at := func(sig *types.Signature) int {
		return slices.IndexFunc(slices.Collect(sig.Params().Variables()), func(v *types.Var) bool { return v == param })
	}
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if i := at(u.signature(n)); i >= 0 {
					f, index = u.TypesInfo.Defs[n.Name], i
				}
			case *ast.ValueSpec: // var delay = func…
				for j, value := range n.Values {
					if lit, ok := value.(*ast.FuncLit); ok && j < len(n.Names) {
						if i := at(u.signature(lit)); i >= 0 {
							f, index = u.TypesInfo.Defs[n.Names[j]], i
						}
					}
				}
			case *ast.AssignStmt:
				if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
					return true
				}
				if lit, ok := n.Rhs[0].(*ast.FuncLit); ok {
					if i := at(u.signature(lit)); i >= 0 && variable(u.TypesInfo, n.Lhs[0]) != nil {
						f, index = variable(u.TypesInfo, n.Lhs[0]), i
					}
				}
			}
			return true
		})
	}
	return f, index
}

// isBounded reports whether an argument is a constant, or a variable that is compared with a
// limit or counts through a range.
func (u *unit) isBounded(arg ast.Expr, caller ast.Decl) bool {
	if u.TypesInfo.Types[arg].Value != nil {
		return true
	}
	counts := u.objects(arg)
	return len(counts) > 0 && contains(caller, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			return isOrder(n.Op) && u.bounds(n, power{}, counts)
		case *ast.RangeStmt:
			return n.Key != nil && mentions(u.TypesInfo, n.Key, counts...)
		}
		return false
	})
}

func isOrder(op token.Token) bool {
	return op == token.LSS || op == token.GTR || op == token.LEQ || op == token.GEQ
}

// isLow reports whether a constant is a number of at most one, which bounds nothing.
func isLow(v constant.Value) bool {
	return v != nil && isNumber(v) && constant.Compare(v, token.LEQ, constant.MakeInt64(1))
}

func isNumber(v constant.Value) bool { return v.Kind() == constant.Int || v.Kind() == constant.Float }

// bounds reports whether a comparison keeps the count small, or finds an overflow.
func (u *unit) bounds(n *ast.BinaryExpr, p power, counts []types.Object) bool {
	low := func(e ast.Expr) bool { return isLow(u.TypesInfo.Types[e].Value) }
	if mentions(u.TypesInfo, n, counts...) {
		return !low(n.X) && !low(n.Y)
	}
	if p.to != nil && mentions(u.TypesInfo, n, p.to) {
		if b, ok := p.to.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsFloat != 0 {
			return true
		}
		return low(n.X) || low(n.Y) || u.isFloor(n, p) // d <= 0
	}
	t, ok := u.TypesInfo.TypeOf(n.X).Underlying().(*types.Basic)
	return ok && t.Info()&types.IsFloat != 0 && !low(n.X) && !low(n.Y)
}

// isFloor reports whether a comparison finds a result below what it was computed from: d < base.
func (u *unit) isFloor(n *ast.BinaryExpr, p power) bool {
	less, more := n.X, n.Y
	if n.Op == token.GTR || n.Op == token.GEQ {
		less, more = more, less
	}
	base := types.ExprString(more)
	return variable(u.TypesInfo, less) == p.to && u.TypesInfo.Types[more].Value == nil && contains(p.expr, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		return ok && types.ExprString(e) == base
	})
}

// objects returns the variables and fields in an expression.
func (u *unit) objects(e ast.Expr) []types.Object {
	var objs []types.Object
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v, ok := u.TypesInfo.ObjectOf(id).(*types.Var); ok {
				objs = append(objs, v)
			}
		}
		return true
	})
	return objs
}

var minName = regexp.MustCompile(`(?i)^min|clamp|bound|limit|cap$`)

func (u *unit) isMin(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && minName.MatchString(funcName(call))
}

// cappedAfter reports whether the result is compared with a limit.
func (u *unit) cappedAfter(body *ast.BlockStmt, p power) bool {
	return contains(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !u.isMin(n) || len(n.Args) < 2 {
				return false
			}
			for _, arg := range n.Args {
				if arg == p.expr || p.to != nil && n.Pos() > p.expr.Pos() && variable(u.TypesInfo, arg) == p.to {
					return true
				}
			}
		case *ast.BinaryExpr:
			return isOrder(n.Op) && p.to != nil && n.Pos() > p.expr.Pos() &&
				(variable(u.TypesInfo, n.X) == p.to || variable(u.TypesInfo, n.Y) == p.to)
		}
		return false
	})
}

// growsInLoop reports whether an attempt without a limit waits that long.
func (u *unit) growsInLoop(p power) bool {
	for _, a := range u.attempts {
		loop, ok := a.loop.(*ast.ForStmt)
		if ok && loop.Cond == nil && loop.Pos() < p.expr.Pos() && p.expr.End() < loop.End() {
			return true
		}
	}
	return false
}

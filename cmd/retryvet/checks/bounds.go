package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"regexp"
)

// This file says how long a wait is at most.

// draws are functions that return less than the last of their arguments.
var draws = regexp.MustCompile(`^math/rand(/v2)?\.(Rand\.)?(N|Intn|Int31n|Int63n|IntN|Int32N|Int64N|UintN|Uint32N|Uint64N)$`)

// atMost returns the largest value that a number or a duration in a loop has. It returns false
// if that is not known.
func (s *source) atMost(a *attempt, e ast.Expr) (float64, bool) {
	return s.largest(a, e, 8)
}

func (s *source) largest(a *attempt, e ast.Expr, depth int) (float64, bool) {
	e = ast.Unparen(orNil(e))
	if depth == 0 {
		return 0, false
	}
	if v := s.pass.TypesInfo.Types[e].Value; v != nil {
		return number(v)
	}
	switch e := e.(type) {
	case *ast.Ident:
		v := variable(s.pass.TypesInfo, e)
		if n, ok := s.countsTo(a, v); ok {
			return n, true
		}
		if to := s.graph(a.in).defs[v]; to != nil && v.Kind() != types.ParamVar {
			return s.largest(a, to, depth-1)
		}
		if v != nil && v.Kind() == types.PackageVar {
			return s.largest(a, s.initial(v), depth-1)
		}
	case *ast.BinaryExpr:
		x, ok1 := s.largest(a, e.X, depth-1)
		if e.Op == token.SUB { // of the time that has passed
			return x, ok1
		}
		y, ok2 := s.largest(a, e.Y, depth-1)
		switch {
		case e.Op == token.REM:
			return y, ok2
		case !ok1 || !ok2 || x < 0 || y < 0:
		case e.Op == token.MUL:
			return x * y, true
		case e.Op == token.ADD:
			return x + y, true
		}
	case *ast.CallExpr:
		return s.largestOfCall(a, e, depth)
	}
	return 0, false
}

// initial returns what a variable of this package is set to where it is declared, or nil.
func (s *source) initial(v *types.Var) ast.Expr {
	for _, file := range s.pass.Files {
		if v.Pos() < file.FileStart || file.FileEnd <= v.Pos() {
			continue
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if s.pass.TypesInfo.Defs[name] == v && i < len(spec.Values) {
						return spec.Values[i]
					}
				}
			}
		}
	}
	return nil
}

func (s *source) largestOfCall(a *attempt, call *ast.CallExpr, depth int) (float64, bool) {
	if len(call.Args) == 1 && s.pass.TypesInfo.Types[call.Fun].IsType() {
		return s.largest(a, call.Args[0], depth-1)
	}
	name := calleeName(s.pass.TypesInfo, call)
	switch {
	case draws.MatchString(name):
		return s.largest(a, call.Args[0], depth-1)
	case unvendored(name) == "k8s.io/apimachinery/pkg/util/wait.Jitter":
		d, ok1 := s.largest(a, call.Args[0], depth-1)
		factor, ok2 := s.largest(a, call.Args[1], depth-1)
		if factor <= 0 {
			factor = 1 // as Jitter does
		}
		return d * (1 + factor), ok1 && ok2
	}
	return 0, false
}

func number(v constant.Value) (float64, bool) {
	if !isNumber(v) {
		return 0, false
	}
	n, _ := constant.Float64Val(constant.ToFloat(v))
	return n, !math.IsInf(n, 0)
}

// countsTo returns the largest value of the variable that a loop counts with, up to a constant.
func (s *source) countsTo(a *attempt, v *types.Var) (float64, bool) {
	if v == nil {
		return 0, false
	}
	info := s.pass.TypesInfo
	switch loop := a.loop.(type) {
	case *ast.RangeStmt:
		if limit := info.Types[loop.X].Value; limit != nil && variable(info, orNil(loop.Key)) == v {
			return number(limit)
		}
	case *ast.ForStmt:
		cond, ok := ast.Unparen(orNil(loop.Cond)).(*ast.BinaryExpr)
		if !ok || cond.Op != token.LSS && cond.Op != token.LEQ && cond.Op != token.NEQ || variable(info, cond.X) != v || !s.counts(loop, v) {
			return 0, false
		}
		if limit := info.Types[cond.Y].Value; limit != nil {
			return number(limit)
		}
	}
	return 0, false
}

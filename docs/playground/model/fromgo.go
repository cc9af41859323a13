package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-5ff3c98e/retry"
)

// FromGo returns the JSON form of the first retry.Policy literal in Go code, which is an
// expression or statements. The literal has to be written with constants. Fields that
// have no JSON form are left out. An error has a line and a column.
func FromGo(code string) ([]byte, error) {
	r := goReader{fset: token.NewFileSet()}
	file, err := parser.ParseFile(r.fset, "", "package p; func f() {/*line :1:1*/"+code+"\n}", 0)
	if list := scanner.ErrorList(nil); errors.As(err, &list) {
		return nil, at(list[0].Pos, list[0].Msg)
	}
	var policy any
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok && policy == nil && name(literal.Type) == "Policy" {
			policy = r.fields(literal)
		}
		return policy == nil
	})
	switch {
	case r.err != nil:
		return nil, r.err
	case policy == nil:
		return nil, errors.New("1:1: there is no retry.Policy{…}")
	}
	return json.Marshal(policy)
}

func at(pos token.Position, problem string) error {
	return fmt.Errorf("%d:%d: %s", pos.Line, pos.Column, problem)
}

// goReader turns expressions into the JSON form.
type goReader struct {
	fset *token.FileSet
	err  error // the first one
}

func (r *goReader) fault(n ast.Node, problem string) any {
	if r.err == nil {
		r.err = at(r.fset.Position(n.Pos()), problem)
	}
	return nil
}

// notData are the fields without a JSON form.
var notData = []string{"Classifier", "Budget", "Observer", "Clock", "Rand"}

// fields reads a literal of a struct.
func (r *goReader) fields(literal *ast.CompositeLit) map[string]any {
	object := map[string]any{}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			r.fault(element, "a field needs its name")
			continue
		}
		if field := name(pair.Key); !slices.Contains(notData, field) {
			object[snake(field)] = r.value(pair.Value, isDuration(field))
		}
	}
	return object
}

// value reads what a field can have. A number is a duration if the field is one.
func (r *goReader) value(e ast.Expr, duration bool) any {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return r.value(e.X, duration)
		}
	case *ast.CompositeLit:
		return r.literal(e)
	case *ast.CallExpr:
		if kind := name(e.Fun); kind != "Duration" && len(e.Args) == 1 {
			return map[string]any{snake(kind): r.value(e.Args[0], kind != "Proportional")}
		}
	case *ast.Ident, *ast.SelectorExpr:
		if word, ok := words[name(e)]; ok {
			return word
		}
	}
	return r.constant(e, duration)
}

// words are the names that stand for something in the JSON form.
var words = func() map[string]any {
	words := map[string]any{"true": true, "false": false, "Unlimited": "unlimited", "MaxInt": "unlimited", "EqualShare": "equal_share"}
	for mode := retry.FullJitter; words[constantName(mode)] == nil; mode++ {
		var form struct {
			Jitter string `json:"jitter"`
		}
		text, err := json.Marshal(retry.Policy{Jitter: mode})
		if err == nil && json.Unmarshal(text, &form) == nil {
			words[constantName(mode)] = form.Jitter
		}
	}
	return words
}()

func (r *goReader) literal(e *ast.CompositeLit) any {
	if _, ok := e.Type.(*ast.MapType); ok {
		object := map[string]any{}
		for _, element := range e.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				return r.fault(element, "an entry needs its key")
			}
			key, _ := r.constant(pair.Key, false).(string)
			override, ok := pair.Value.(*ast.CompositeLit)
			if !ok {
				return r.fault(pair.Value, "must be a retry.Override{…}")
			}
			object[key] = r.fields(override)
		}
		return object
	}
	kind := snake(name(e.Type))
	if kind != "schedule" {
		return map[string]any{kind: r.fields(e)}
	}
	waits := []any{}
	for _, wait := range e.Elts {
		waits = append(waits, r.constant(wait, true))
	}
	return map[string]any{kind: waits}
}

// constant computes an expression: a text, a number, or a duration as a text.
func (r *goReader) constant(e ast.Expr, duration bool) any {
	v := compute(e)
	switch n, whole := constant.Int64Val(constant.ToInt(v)); {
	case v.Kind() == constant.String:
		return constant.StringVal(v)
	case v.Kind() != constant.Int && v.Kind() != constant.Float:
		return r.fault(e, "must be a constant")
	case duration && !whole:
		return r.fault(e, "must be a whole number of nanoseconds")
	case duration:
		return time.Duration(n).String()
	default:
		f, _ := constant.Float64Val(v)
		if math.IsInf(f, 0) {
			return r.fault(e, "is too large")
		}
		return f
	}
}

// units are the constants of package time.
var units = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// compute returns the value of a constant expression, and an unknown one of another.
func compute(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return compute(e.X)
	case *ast.SelectorExpr:
		if unit, ok := units[e.Sel.Name]; ok && name(e.X) == "time" {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.CallExpr:
		if name(e.Fun) == "Duration" && len(e.Args) == 1 {
			return compute(e.Args[0])
		}
	case *ast.UnaryExpr:
		if x := compute(e.X); number(x) && (e.Op == token.SUB || e.Op == token.ADD) {
			return constant.UnaryOp(e.Op, x, 0)
		}
	case *ast.BinaryExpr:
		return binary(e.Op, compute(e.X), compute(e.Y))
	}
	return constant.MakeUnknown()
}

func binary(op token.Token, x, y constant.Value) constant.Value {
	zero := constant.MakeInt64(0)
	switch {
	case !number(x) || !number(y):
	case op == token.QUO && constant.Compare(y, token.EQL, zero):
	case op == token.QUO && x.Kind() == constant.Int && y.Kind() == constant.Int:
		return constant.BinaryOp(x, token.QUO_ASSIGN, y) // as whole numbers
	case op == token.ADD, op == token.SUB, op == token.MUL, op == token.QUO:
		return constant.BinaryOp(x, op, y)
	}
	return constant.MakeUnknown()
}

func number(v constant.Value) bool {
	return v.Kind() == constant.Int || v.Kind() == constant.Float
}

// isDuration reports whether a field of a policy or a backoff is one.
func isDuration(field string) bool {
	return !slices.Contains([]string{"Name", "MaxAttempts", "Multiplier", "FreeRateLimits", "NonIdempotent"}, field)
}

// name returns the last part of a name.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

// snake returns "max_delay" for MaxDelay.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

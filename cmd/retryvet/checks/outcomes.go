package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// This file says what a success and what a failure is. A scene assumes one of them, and the
// conditions of a function are evaluated under it.

// try is a call whose outcome decides whether a loop goes round.
type try struct {
	call *ast.CallExpr
	at   place
	err  *types.Var   // where its error goes, or nil
	resp *types.Var   // where its *http.Response goes, or nil
	outs []*types.Var // where its other results go

	// fails are the failures after which the loop goes round.
	fails []scene
}

// scene is an assumption about the outcome of an attempt.
type scene struct {
	try    *try // nil: nothing is known
	fine   bool // no error is other than nil
	nilErr nilness
	status int   // the HTTP status of the answer; 0 is not known
	good   truth // whether the answer tells of a success
	guess  truth // the answer to questions about the outcome whose names do not say what they ask
}

// nilness is what is known about an error.
type nilness uint8

const (
	maybe nilness = iota
	isNil
	notNil
)

// truth is the value of a condition, as far as it is known.
type truth uint8

const (
	unknown truth = iota
	yes
	no
)

func (t truth) not() truth { return [...]truth{unknown: unknown, yes: no, no: yes}[t] }

func (t truth) and(u truth) truth {
	switch {
	case t == no || u == no:
		return no
	case t == yes && u == yes:
		return yes
	}
	return unknown
}

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// succeeds is the scene of a success. guess is what a question answers then.
func (t *try) succeeds(guess truth) scene {
	return scene{try: t, fine: true, nilErr: isNil, status: 200, good: yes, guess: guess}
}

// failsWith is the scene of an error.
func (t *try) failsWith() scene { return scene{try: t, nilErr: notNil} }

// answers is the scene of a response with a status that tells of a failure.
func (t *try) answers(status int) scene {
	return scene{try: t, nilErr: isNil, status: status, good: no}
}

// refuses is the scene of an answer without an error that tells of a failure.
func (t *try) refuses(guess truth) scene {
	return scene{try: t, fine: true, nilErr: isNil, good: no, guess: guess}
}

// onError reports whether a loop goes round after an error of a try.
func (t *try) onError() bool {
	return t.err != nil && slices.ContainsFunc(t.fails, func(sc scene) bool { return sc.nilErr == notNil })
}

// unavailable are statuses of servers that cannot answer now.
var unavailable = []int{429, 503}

// after returns what is known after a node has run.
func (g *graph) after(n ast.Node, sc scene) scene {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || sc.try == nil {
		return sc
	}
	for i, lhs := range assign.Lhs {
		v := variable(g.info, lhs)
		switch {
		case v == nil:
		case v == sc.try.err && !sc.fine:
			sc.nilErr = maybe
			if len(assign.Rhs) == len(assign.Lhs) {
				sc.nilErr = g.nilness(assign.Rhs[i])
			}
		case v == sc.try.resp:
			sc.status = 0
		}
	}
	return sc
}

// nilness returns what is known of an expression for an error.
func (g *graph) nilness(e ast.Expr) nilness {
	if isNilExpr(g.info, e) {
		return isNil
	}
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		if name := calleeName(g.info, call); name == "fmt.Errorf" || name == "errors.New" {
			return notNil
		}
	}
	return maybe
}

// branch returns whether a block goes on to its first successor.
func (g *graph) branch(b *cfgBlock, sc scene) truth {
	cond := condition(b)
	if cond == nil {
		return unknown
	}
	if sw := g.switchOf(b); sw != nil && sw.Tag != nil {
		return g.truth(&ast.BinaryExpr{X: sw.Tag, Op: token.EQL, Y: cond}, sc)
	}
	return g.truth(cond, sc)
}

// assume returns what is known after a block ended with its condition true or false.
func (g *graph) assume(b *cfgBlock, sc scene, holds bool) scene {
	cond, ok := ast.Unparen(orNil(condition(b))).(*ast.BinaryExpr)
	if !ok || sc.try == nil || sc.try.err == nil || sc.nilErr != maybe {
		return sc
	}
	if variable(g.info, cond.X) != sc.try.err || !isNilExpr(g.info, cond.Y) {
		return sc
	}
	if (cond.Op == token.EQL) == holds {
		sc.nilErr = isNil
	} else {
		sc.nilErr = notNil
	}
	return sc
}

// truth evaluates a condition.
func (g *graph) truth(e ast.Expr, sc scene) truth {
	e = g.meant(e, sc)
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return g.truth(e.X, sc).not()
		}
	case *ast.BinaryExpr:
		return g.binary(e, sc)
	case *ast.CallExpr:
		return g.called(e, sc)
	case *ast.SelectorExpr:
		return g.question(e.Sel.Name, e, sc)
	case *ast.Ident:
		if v, ok := g.constant(e, sc); !ok || v.Kind() != constant.Bool {
			return g.question(e.Name, e, sc)
		}
	}
	if v, ok := g.constant(e, sc); ok && v.Kind() == constant.Bool {
		return truthOf(constant.BoolVal(v))
	}
	return unknown
}

// meant returns what an expression stands for: what the one assignment to a variable gave it, or
// the argument that a parameter has. A result of the attempt stands for itself.
func (g *graph) meant(e ast.Expr, sc scene) ast.Expr {
	for range 8 {
		e = ast.Unparen(orNil(e))
		v := variable(g.info, e)
		if v == nil || sc.try != nil && (v == sc.try.err || v == sc.try.resp || slices.Contains(sc.try.outs, v)) {
			return e
		}
		to := g.src.bound[v]
		if to == nil {
			to = g.defs[v]
		}
		if to == nil {
			return e
		}
		e = to
	}
	return e
}

func (g *graph) binary(e *ast.BinaryExpr, sc scene) truth {
	switch e.Op {
	case token.LAND:
		return g.truth(e.X, sc).and(g.truth(e.Y, sc))
	case token.LOR:
		return g.truth(e.X, sc).not().and(g.truth(e.Y, sc).not()).not()
	case token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ:
	default:
		return unknown
	}
	x, y := e.X, e.Y
	if isNilExpr(g.info, x) {
		x, y = y, x
	}
	if isNilExpr(g.info, y) {
		return g.comparedToNil(x, e.Op, sc)
	}
	if sc.nilErr == isNil && g.isError(x, y, sc) {
		return truthOf(e.Op == token.NEQ) // err == io.EOF
	}
	a, ok1 := g.constant(x, sc)
	b, ok2 := g.constant(y, sc)
	switch {
	case ok1 && ok2 && a.Kind() == constant.Int && b.Kind() == constant.Int:
		return truthOf(constant.Compare(a, e.Op, b))
	case ok2 && b.Kind() == constant.Bool: // ok == false
		t := g.truth(x, sc)
		if constant.BoolVal(b) != (e.Op == token.EQL) {
			t = t.not()
		}
		return t
	case e.Op == token.NEQ:
		return g.question("", e, sc).not()
	}
	return g.question("", e, sc)
}

// isError reports whether one of two expressions is the error of the attempt.
func (g *graph) isError(x, y ast.Expr, sc scene) bool {
	return sc.try != nil && sc.try.err != nil &&
		(variable(g.info, g.meant(x, sc)) == sc.try.err || variable(g.info, g.meant(y, sc)) == sc.try.err)
}

func (g *graph) comparedToNil(x ast.Expr, op token.Token, sc scene) truth {
	x = g.meant(x, sc)
	if op != token.EQL && op != token.NEQ {
		return unknown
	}
	if sel, ok := x.(*ast.SelectorExpr); ok && sel.Sel.Name == "Body" {
		x = g.meant(sel.X, sc) // a response has a body
	}
	null := g.isNil(x, sc)
	if null == unknown && sc.try != nil && !isError(g.info.TypeOf(x)) {
		null = g.question("", x, sc)
	}
	if op == token.NEQ {
		return null.not()
	}
	return null
}

// isNil reports whether an expression is nil. A context and what its Done returns are not: where
// they are, there is nothing that they could interrupt.
func (g *graph) isNil(x ast.Expr, sc scene) truth {
	t := g.info.TypeOf(x)
	if call, ok := x.(*ast.CallExpr); ok {
		if sc.try != nil && call == sc.try.call && sc.nilErr != maybe && isError(t) {
			return truthOf(sc.nilErr == isNil)
		}
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && sel.Sel.Name == "Done" && isContext(g.info.TypeOf(sel.X)) {
			return no
		}
	}
	v := variable(g.info, x)
	switch {
	case t != nil && isContext(t):
		return no
	case v == nil || sc.try == nil:
	case sc.fine && isError(v.Type()):
		return yes
	case v == sc.try.err && sc.nilErr != maybe:
		return truthOf(sc.nilErr == isNil)
	case v == sc.try.resp && sc.status != 0:
		return no
	}
	return unknown
}

// called evaluates a call: by what a function of this package does, or by its name.
func (g *graph) called(call *ast.CallExpr, sc scene) truth {
	if sc.try == nil {
		return unknown
	}
	if t := g.inside(call, sc); t != unknown {
		return t
	}
	return g.question(funcName(call), call, sc)
}

// inside evaluates a call of a function of this package that returns a bool and nothing else: it
// follows every path through it.
func (g *graph) inside(call *ast.CallExpr, sc scene) truth {
	const deepest, most = 3, 64 // calls in calls, blocks: what is longer does more than decide
	f := callee(g.info, call)
	decl := g.src.decl(f)
	if decl == nil || g.src.depth >= deepest || f.Signature().Variadic() || f.Signature().Results().Len() != 1 || !g.about(call, sc) {
		return unknown
	}
	params := slices.Collect(f.Signature().Params().Variables())
	if len(call.Args) != len(params) || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return g.leadsTo(arg, params) }) {
		return unknown
	}
	for i, p := range params {
		if g.src.bound[p] != nil {
			return unknown
		}
		g.src.bound[p] = call.Args[i]
		defer delete(g.src.bound, p)
	}
	g.src.depth++
	defer func() { g.src.depth-- }()
	body := g.src.graph(decl.Body)
	if len(body.Blocks) == 0 || len(body.Blocks) > most {
		return unknown
	}
	all, first := unknown, true
	body.walk(place{body.Blocks[0], -1}, nil, sc, func(n ast.Node, sc scene) bool {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok {
			return true
		}
		t := unknown
		if len(ret.Results) == 1 {
			t = body.truth(ret.Results[0], sc)
		}
		if first {
			all = t
		} else if all != t {
			all = unknown
		}
		first = false
		return false
	})
	return all
}

// leadsTo reports whether an expression has one of the parameters in it, or stands for one that has: the
// function calls itself.
func (g *graph) leadsTo(e ast.Expr, params []*types.Var) bool {
	return contains(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := variable(g.info, id)
		return v != nil && (slices.Contains(params, v) || g.src.bound[v] != nil && g.leadsTo(g.src.bound[v], params))
	})
}

// Names of questions about an outcome, in the order in which they are looked at.
var (
	asksError   = regexp.MustCompile(`(?i)^(is|has)?_?err(or)?$|fail`)
	asksAgain   = regexp.MustCompile(`(?i)retr|temporar|transient|again|recover`)
	asksFailure = regexp.MustCompile(`(?i)timeout|err|not|invalid|incomplete|unhealthy|unavail|conflict|throttl|refused`)
	asksSuccess = regexp.MustCompile(`(?i)ok$|succ|2xx|200|ready|done|complet|valid|healthy|good|finish`)
	asksKind    = regexp.MustCompile(`(?i)^is|^as$`)
)

// question evaluates what asks about the outcome of an attempt, by its name.
func (g *graph) question(name string, e ast.Expr, sc scene) truth {
	if sc.good == unknown || !g.about(e, sc) {
		return unknown
	}
	switch {
	case asksError.MatchString(name):
		return sc.good.not()
	case asksAgain.MatchString(name):
		return sc.good.not()
	case asksFailure.MatchString(name):
		if sc.good == yes {
			return no
		}
		return unknown
	case asksSuccess.MatchString(name):
		return sc.good
	case asksKind.MatchString(name) && sc.good == yes && g.mentionsError(e, sc):
		return no
	}
	return sc.guess
}

// about reports whether an expression has the outcome of the attempt in it.
func (g *graph) about(e ast.Expr, sc scene) bool {
	if sc.try == nil {
		return false
	}
	return contains(e, func(n ast.Node) bool {
		if n == sc.try.call {
			return true
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := variable(g.info, id)
		if v == nil {
			return false
		}
		if to := g.meant(id, sc); to != ast.Expr(id) && g.src.depth < 8 {
			g.src.depth++
			defer func() { g.src.depth-- }()
			return g.about(to, sc)
		}
		return v == sc.try.err || v == sc.try.resp || slices.Contains(sc.try.outs, v) || sc.fine && isError(v.Type())
	})
}

func (g *graph) mentionsError(e ast.Expr, sc scene) bool {
	return contains(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := variable(g.info, g.meant(id, sc))
		return v != nil && isError(v.Type())
	})
}

var statusName = regexp.MustCompile(`(?i)^(http)?_?(status|code|status_?code|resp(onse)?_?code)$`)

// constant evaluates an expression whose value is known, such as a status divided by 100.
func (g *graph) constant(e ast.Expr, sc scene) (constant.Value, bool) {
	e = g.meant(e, sc)
	if tv := g.info.Types[e]; tv.Value != nil {
		return tv.Value, true
	}
	if sc.status != 0 && g.isStatus(e, sc) {
		return constant.MakeInt64(int64(sc.status)), true
	}
	if e, ok := e.(*ast.BinaryExpr); ok {
		x, ok1 := g.constant(e.X, sc)
		y, ok2 := g.constant(e.Y, sc)
		if ok1 && ok2 && e.Op == token.QUO && x.Kind() == constant.Int && y.Kind() == constant.Int && constant.Sign(y) != 0 {
			return constant.BinaryOp(x, token.QUO_ASSIGN, y), true
		}
	}
	return nil, false
}

// isStatus reports whether an expression is the HTTP status of an outcome: a number with such a
// name that the attempt returned, or that is in what it returned.
func (g *graph) isStatus(e ast.Expr, sc scene) bool {
	b, ok := types.Unalias(orInvalid(g.info.TypeOf(e))).Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsInteger == 0 || sc.try == nil {
		return false
	}
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 0 { // resp.StatusCode()
		e = call.Fun
	}
	switch e := e.(type) {
	case *ast.Ident:
		return statusName.MatchString(e.Name) && slices.Contains(sc.try.outs, variable(g.info, e))
	case *ast.SelectorExpr:
		v := variable(g.info, g.meant(e.X, sc))
		return v != nil && statusName.MatchString(e.Sel.Name) && (v == sc.try.resp || slices.Contains(sc.try.outs, v))
	}
	return false
}

func orInvalid(t types.Type) types.Type {
	if t == nil {
		return types.Typ[types.Invalid]
	}
	return t
}

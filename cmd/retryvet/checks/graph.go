package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// graph is the control flow of one function.
type graph struct {
	*cfg.CFG
	info *types.Info
	tags map[*ast.CaseClause]*ast.SwitchStmt
}

func (s *source) graph(body *ast.BlockStmt) *graph {
	g, ok := s.graphs[body]
	if !ok {
		info := s.pass.TypesInfo
		g = &graph{
			CFG:  cfg.New(body, func(call *ast.CallExpr) bool { return mayReturn(info, call) }),
			info: info,
			tags: map[*ast.CaseClause]*ast.SwitchStmt{},
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if sw, ok := n.(*ast.SwitchStmt); ok {
				for _, clause := range sw.Body.List {
					g.tags[clause.(*ast.CaseClause)] = sw
				}
			}
			return true
		})
		s.graphs[body] = g
	}
	return g
}

var endsProgram = regexp.MustCompile(`^(Fatal|Fatalf|Fatalln|Panic|Panicf|Panicln|Exit|Goexit|FailNow)$`)

func mayReturn(info *types.Info, call *ast.CallExpr) bool {
	if b, ok := typeutil.Callee(info, call).(*types.Builtin); ok {
		return b.Name() != "panic"
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return !ok || !endsProgram.MatchString(sel.Sel.Name)
}

// place is a node of a graph.
type place struct {
	block *cfg.Block
	index int
}

// find returns the place of a node that is in a block as it is.
func (g *graph) find(n ast.Node) (place, bool) {
	for _, b := range g.Blocks {
		for i, m := range b.Nodes {
			if m == n {
				return place{b, i}, true
			}
		}
	}
	return place{}, false
}

// nilness is what is known about an error.
type nilness uint8

const (
	maybe nilness = iota
	isNil
	notNil
)

// scene is an assumption about the outcome of an attempt.
type scene struct {
	fine   bool       // no error is other than nil
	err    *types.Var // of the attempt
	nilErr nilness
	resp   *types.Var // an *http.Response, or nil
	status int        // of resp; 0 is unknown
}

// ends are the ways in which a path may end.
type ends uint8

const (
	goesOn ends = 1 << iota // to the next iteration
	leaves                  // the loop or the function
)

// walk follows every path from a place on, and returns how they end. The node at the place is
// not visited. A path ends early where visit returns false. A nil loop means that paths end
// where the function does.
func (g *graph) walk(from place, loop ast.Stmt, sc scene, visit func(ast.Node, scene) bool) ends {
	type key struct {
		block *cfg.Block
		err   nilness
	}
	seen := map[key]bool{}
	var result ends
	var follow func(b *cfg.Block, start int, sc scene)
	enter := func(b *cfg.Block, sc scene) {
		if head(b, loop) {
			if b = g.pastPost(b); b == nil || g.truth(g.condition(b), sc) != no {
				result |= goesOn
			} else {
				result |= leaves
			}
			return
		}
		if loop != nil && b.Stmt == loop && (b.Kind == cfg.KindForDone || b.Kind == cfg.KindRangeDone) {
			result |= leaves
			return
		}
		if k := (key{b, sc.nilErr}); !seen[k] {
			seen[k] = true
			follow(b, 0, sc)
		}
	}
	follow = func(b *cfg.Block, start int, sc scene) {
		for _, n := range b.Nodes[start:] {
			if visit != nil && !visit(n, sc) {
				return
			}
			sc = g.after(n, sc)
		}
		switch len(b.Succs) {
		case 0:
			if b.Kind != cfg.KindSelectAfterCase { // where a select would be that no case ends
				result |= leaves
			}
		case 1:
			enter(b.Succs[0], sc)
		default:
			truth := g.branch(b, sc)
			if truth != no {
				enter(b.Succs[0], g.assume(b, sc, true))
			}
			if truth != yes {
				enter(b.Succs[1], g.assume(b, sc, false))
			}
		}
	}
	follow(from.block, from.index+1, sc)
	return result
}

// head reports whether a block is where the next iteration of a loop begins.
func head(b *cfg.Block, loop ast.Stmt) bool {
	if loop == nil || b.Stmt != loop {
		return false
	}
	switch b.Kind { //nolint:exhaustive // no other belongs to a loop
	case cfg.KindForPost, cfg.KindForLoop, cfg.KindForBody, cfg.KindRangeLoop, cfg.KindRangeBody:
		return true
	}
	return false
}

// pastPost returns the block with the condition of a loop, or nil if there is none.
func (g *graph) pastPost(b *cfg.Block) *cfg.Block {
	if b.Kind == cfg.KindForPost && len(b.Succs) == 1 {
		b = b.Succs[0]
	}
	if b.Kind != cfg.KindForLoop {
		return nil
	}
	return b
}

// after returns what is known after a node has run.
func (g *graph) after(n ast.Node, sc scene) scene {
	assign, ok := n.(*ast.AssignStmt)
	if !ok {
		return sc
	}
	for i, lhs := range assign.Lhs {
		v := variable(g.info, lhs)
		switch {
		case v == nil:
		case v == sc.err && !sc.fine:
			sc.nilErr = maybe
			if len(assign.Rhs) == len(assign.Lhs) {
				sc.nilErr = g.nilness(assign.Rhs[i])
			}
		case v == sc.resp:
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

// truth is the value of a condition, as far as it is known.
type truth uint8

const (
	unknown truth = iota
	yes
	no
)

func (t truth) not() truth { return [...]truth{unknown: unknown, yes: no, no: yes}[t] }

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// condition returns the condition at the end of a block, or nil.
func (g *graph) condition(b *cfg.Block) ast.Expr {
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return nil
	}
	e, _ := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	return e
}

// branch returns whether a block goes on to its first successor.
func (g *graph) branch(b *cfg.Block, sc scene) truth {
	cond := g.condition(b)
	if cond == nil {
		return unknown
	}
	if clause, ok := b.Succs[0].Stmt.(*ast.CaseClause); ok && b.Succs[0].Kind == cfg.KindSwitchCaseBody {
		if sw := g.tags[clause]; sw != nil && sw.Tag != nil {
			return g.truth(&ast.BinaryExpr{X: sw.Tag, Op: token.EQL, Y: cond}, sc)
		}
	}
	return g.truth(cond, sc)
}

// assume returns what is known after a block ended with its condition true or false.
func (g *graph) assume(b *cfg.Block, sc scene, holds bool) scene {
	cond, ok := ast.Unparen(orNil(g.condition(b))).(*ast.BinaryExpr)
	if !ok || sc.err == nil || sc.nilErr != maybe {
		return sc
	}
	if variable(g.info, cond.X) != sc.err || !isNilExpr(g.info, cond.Y) {
		return sc
	}
	if (cond.Op == token.EQL) == holds {
		sc.nilErr = isNil
	} else {
		sc.nilErr = notNil
	}
	return sc
}

// orNil gives Unparen something to look at.
func orNil(e ast.Expr) ast.Expr {
	if e == nil {
		return &ast.BadExpr{}
	}
	return e
}

// aboutErrors are names of functions that are false for no error and for success.
var aboutErrors = regexp.MustCompile(`(?i)retr|temporar|transient|timeout|again|recover|fail|^is[a-z]*err|^is|^as$`)

// truth evaluates a condition.
func (g *graph) truth(e ast.Expr, sc scene) truth {
	switch e := e.(type) {
	case nil:
		return unknown
	case *ast.ParenExpr:
		return g.truth(e.X, sc)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return g.truth(e.X, sc).not()
		}
	case *ast.BinaryExpr:
		return g.binary(e, sc)
	case *ast.CallExpr:
		return g.call(e, sc)
	}
	if v, ok := g.constant(e, sc); ok && v.Kind() == constant.Bool {
		return truthOf(constant.BoolVal(v))
	}
	return unknown
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
	if sc.nilErr == isNil && sc.err != nil && e.Op == token.EQL &&
		(variable(g.info, x) == sc.err || variable(g.info, y) == sc.err) {
		return no // err == io.EOF
	}
	a, ok1 := g.constant(e.X, sc)
	b, ok2 := g.constant(e.Y, sc)
	if !ok1 || !ok2 || a.Kind() != constant.Int || b.Kind() != constant.Int {
		return unknown
	}
	return truthOf(constant.Compare(a, e.Op, b))
}

func (t truth) and(u truth) truth {
	switch {
	case t == no || u == no:
		return no
	case t == yes && u == yes:
		return yes
	}
	return unknown
}

func (g *graph) comparedToNil(x ast.Expr, op token.Token, sc scene) truth {
	if sel, ok := ast.Unparen(x).(*ast.SelectorExpr); ok && sel.Sel.Name == "Body" && sc.resp != nil {
		x = sel.X // a response has a body
	}
	v := variable(g.info, x)
	if v == nil || op != token.EQL && op != token.NEQ {
		return unknown
	}
	null := unknown
	switch {
	case sc.fine && isError(v.Type()):
		null = yes
	case v == sc.err && sc.nilErr != maybe:
		null = truthOf(sc.nilErr == isNil)
	case v == sc.resp && sc.status != 0:
		null = no
	}
	if op == token.NEQ {
		return null.not()
	}
	return null
}

// call evaluates a call that asks what kind of error there was: after a success there was
// none.
func (g *graph) call(call *ast.CallExpr, sc scene) truth {
	if sc.nilErr != isNil || sc.status > 399 || !aboutErrors.MatchString(funcName(call)) {
		return unknown
	}
	for _, arg := range call.Args {
		if v := variable(g.info, arg); v != nil && (v == sc.err || v == sc.resp || sc.fine && isError(v.Type())) {
			return no
		}
		if sel, ok := ast.Unparen(arg).(*ast.SelectorExpr); ok && sc.resp != nil && variable(g.info, sel.X) == sc.resp {
			return no
		}
	}
	return unknown
}

// constant evaluates an expression whose value is known, such as a status divided by 100.
func (g *graph) constant(e ast.Expr, sc scene) (constant.Value, bool) {
	e = ast.Unparen(e)
	if tv := g.info.Types[e]; tv.Value != nil {
		return tv.Value, true
	}
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if sc.status != 0 && e.Sel.Name == "StatusCode" && variable(g.info, e.X) == sc.resp {
			return constant.MakeInt64(int64(sc.status)), true
		}
	case *ast.BinaryExpr:
		x, ok1 := g.constant(e.X, sc)
		y, ok2 := g.constant(e.Y, sc)
		if ok1 && ok2 && e.Op == token.QUO && x.Kind() == constant.Int && y.Kind() == constant.Int && constant.Sign(y) != 0 {
			return constant.BinaryOp(x, token.QUO_ASSIGN, y), true
		}
	}
	return nil, false
}

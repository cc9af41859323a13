package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// graph is the control flow of one function.
type graph struct {
	*cfg.CFG
	src  *source
	info *types.Info
	tags map[*ast.CaseClause]*ast.SwitchStmt
	defs map[*types.Var]ast.Expr // of variables that are set once
}

type cfgBlock = cfg.Block

func (s *source) graph(body *ast.BlockStmt) *graph {
	g, ok := s.graphs[body]
	if !ok {
		info := s.pass.TypesInfo
		g = &graph{
			CFG:  cfg.New(body, func(call *ast.CallExpr) bool { return mayReturn(info, call) }),
			src:  s,
			info: info,
			tags: map[*ast.CaseClause]*ast.SwitchStmt{},
			defs: definitions(info, body),
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

// definitions returns what the variables of a function are set to that are set once. A variable
// whose address is taken may be set elsewhere, and one from outside has another value before.
func definitions(info *types.Info, body *ast.BlockStmt) map[*types.Var]ast.Expr {
	defs, times := map[*types.Var]ast.Expr{}, map[*types.Var]int{}
	set := func(lhs, rhs ast.Expr) {
		if v := variable(info, lhs); v != nil && body.Pos() <= v.Pos() && v.Pos() < body.End() {
			times[v]++
			defs[v] = rhs
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				var rhs ast.Expr
				if len(n.Lhs) == len(n.Rhs) && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE) {
					rhs = n.Rhs[i]
				}
				set(lhs, rhs)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				var rhs ast.Expr
				if len(n.Names) == len(n.Values) {
					rhs = n.Values[i]
				}
				set(name, rhs)
			}
		case *ast.RangeStmt:
			set(n.Key, nil)
			set(n.Value, nil)
		case *ast.IncDecStmt:
			set(n.X, nil)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				set(n.X, nil)
			}
		}
		return true
	})
	for v, n := range times {
		if n > 1 || defs[v] == nil {
			delete(defs, v)
		}
	}
	return defs
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
		scene scene
	}
	seen := map[key]bool{}
	var result ends
	var follow func(b *cfg.Block, start int, sc scene)
	enter := func(b *cfg.Block, sc scene) {
		if head(b, loop) {
			if b = g.pastPost(b); b == nil || g.truth(condition(b), sc) != no {
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
		if k := (key{b, sc}); !seen[k] {
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

// orNil gives Unparen something to look at.
func orNil(e ast.Expr) ast.Expr {
	if e == nil {
		return &ast.BadExpr{}
	}
	return e
}

// condition returns the condition at the end of a block, or nil.
func condition(b *cfgBlock) ast.Expr {
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return nil
	}
	e, _ := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	return e
}

// switchOf returns the switch one of whose cases a block looks at, or nil.
func (g *graph) switchOf(b *cfgBlock) *ast.SwitchStmt {
	if clause, ok := b.Succs[0].Stmt.(*ast.CaseClause); ok && b.Succs[0].Kind == cfg.KindSwitchCaseBody {
		return g.tags[clause]
	}
	return nil
}

// start returns the place before the first node of the body of a loop.
func (g *graph) start(loop ast.Stmt) (place, bool) {
	for _, b := range g.Blocks {
		if b.Stmt == loop && (b.Kind == cfg.KindForBody || b.Kind == cfg.KindRangeBody) {
			return place{b, -1}, true
		}
	}
	return place{}, false
}

// reaches reports whether a path from a place gets to a node before the next iteration.
func (g *graph) reaches(from place, loop ast.Stmt, sc scene, to ast.Node) bool {
	reached := false
	g.walk(from, loop, sc, func(n ast.Node, _ scene) bool {
		reached = reached || to.Pos() <= n.Pos() && n.End() <= to.End()
		return !reached
	})
	return reached
}

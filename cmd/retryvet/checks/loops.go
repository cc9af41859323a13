package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// This file says which loops make attempts. A loop over items, pages or candidates does another
// thing each time, and is none.

// kind is why a loop goes round.
type kind uint8

const (
	// retrying is until a call succeeds: a failure makes the loop go round.
	retrying kind = iota
	// reconnecting is for ever, and after a failure it waits.
	reconnecting
	// polling is until something is so, or for ever, and it waits each time.
	polling
)

// round returns what the next iteration of a loop is.
func (k kind) round() string {
	if k == polling {
		return "look"
	}
	return "attempt"
}

// addLoop adds a loop if it makes attempts.
func (s *source) addLoop(a *attempt) {
	if s.iterates(a.loop) {
		return
	}
	a.waits = s.waits(a)
	signed := s.looksLikeRetry(a)
	if !signed && !s.counted(a) {
		return
	}
	g := s.graph(a.in)
	tries := s.triesIn(g, a)
	varies := s.varies(a, tries)
	kinds := map[kind][]*try{}
	for _, t := range tries {
		if s.differs(t.call, varies) {
			continue
		}
		if k, ok := s.classify(g, a, t); ok {
			kinds[k] = append(kinds[k], t)
		}
	}
	switch {
	case len(kinds[retrying]) > 0:
		a.kind, a.tries = retrying, kinds[retrying]
	case len(kinds[reconnecting]) > 0:
		a.kind, a.tries = reconnecting, kinds[reconnecting]
	case s.replays(a):
		return
	case len(kinds[polling]) > 0 && len(a.waits) > 0:
		a.kind, a.tries = polling, kinds[polling]
	case len(a.waits) > 0 && s.looks(a, varies):
		a.kind = polling
	default:
		return
	}
	s.attempts = append(s.attempts, a)
}

// mostTries is how many calls of a loop are looked at. Each is followed through the whole loop.
const mostTries = 64

// triesIn returns the calls in a loop whose results somebody looks at.
func (s *source) triesIn(g *graph, a *attempt) []*try {
	var tries []*try
	for _, b := range g.Blocks {
		if !b.Live {
			continue
		}
		for i, n := range b.Nodes {
			if n.Pos() < a.body.Pos() && !inCondition(a.loop, n) || n.End() > a.body.End() || !inmost(a, n) {
				continue
			}
			if t := s.try(n, place{b, i}); t != nil && len(tries) < mostTries {
				tries = append(tries, t)
			}
		}
	}
	return tries
}

func inCondition(loop ast.Stmt, n ast.Node) bool {
	f, ok := loop.(*ast.ForStmt)
	return ok && f.Cond != nil && f.Cond.Pos() <= n.Pos() && n.End() <= f.Cond.End()
}

// inmost reports whether no other loop of the attempt's is around a node.
func inmost(a *attempt, n ast.Node) bool {
	inner := false
	own(a.body, func(m ast.Node) bool {
		switch m.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			inner = inner || m.Pos() <= n.Pos() && n.End() <= m.End()
		}
		return !inner
	})
	return !inner
}

// try returns the call whose outcome a node keeps or asks for, or nil.
func (s *source) try(n ast.Node, at place) *try {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Rhs) != 1 {
			return nil
		}
		call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
		if !ok || !s.tells(call) {
			return nil
		}
		return s.assigned(call, n.Lhs, at)
	case ast.Expr:
		if len(at.block.Succs) != 2 || at.index != len(at.block.Nodes)-1 {
			return nil
		}
		if call := s.asked(n); call != nil && s.tells(call) {
			return &try{call: call, at: at}
		}
	}
	return nil
}

// assigned returns the call with the variables that its results go to.
func (s *source) assigned(call *ast.CallExpr, lhs []ast.Expr, at place) *try {
	t := &try{call: call, at: at}
	add := func(e ast.Expr) {
		v := variable(s.pass.TypesInfo, e)
		switch {
		case v == nil || v.Name() == "_":
		case isError(v.Type()):
			t.err = v
		case isResponse(v.Type()):
			t.resp = v
		default:
			t.outs = append(t.outs, v)
		}
	}
	for _, e := range lhs {
		add(e)
	}
	for _, arg := range call.Args { // where fasthttp and json put what they return
		if u, ok := ast.Unparen(arg).(*ast.UnaryExpr); ok && u.Op == token.AND {
			if v := variable(s.pass.TypesInfo, u.X); v != nil && !isError(v.Type()) {
				t.outs = append(t.outs, v)
			}
		} else if v := variable(s.pass.TypesInfo, arg); v != nil && isPointer(v.Type()) && (v.Name() == "resp" || v.Name() == "response") {
			t.outs = append(t.outs, v)
		}
	}
	if t.err == nil && t.resp == nil && len(t.outs) == 0 {
		return nil
	}
	return t
}

func isPointer(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return pointer
}

func isResponse(t types.Type) bool { return isPointer(t) && isType(t, "net/http", "Response") }

// asked returns the call that a condition is about: up(), !up(), call() == nil.
func (s *source) asked(e ast.Expr) *ast.CallExpr {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return e
	case *ast.UnaryExpr:
		return s.asked(e.X)
	case *ast.BinaryExpr:
		if call, ok := ast.Unparen(e.X).(*ast.CallExpr); ok {
			return call
		}
	}
	return nil
}

// computes are packages whose functions tell nothing about the world.
var computes = regexp.MustCompile(`^(bytes|context|errors|fmt|math|reflect|slices|maps|sort|strings|strconv|sync|sync/atomic|time|unicode)(/|$)`)

// tells reports whether a call may return something else the next time.
func (s *source) tells(call *ast.CallExpr) bool {
	info := s.pass.TypesInfo
	if tv, ok := info.Types[call.Fun]; ok && (tv.IsType() || tv.IsBuiltin()) {
		return false
	}
	f := callee(info, call)
	if f == nil {
		return true // a function value
	}
	return f.Pkg() == nil || !computes.MatchString(f.Pkg().Path())
}

// classify returns why a loop goes round after a call. It returns false if the call does not
// decide that.
func (s *source) classify(g *graph, a *attempt, t *try) (kind, bool) {
	leavesAfter := func(sc scene) bool { return g.walk(t.at, a.loop, sc, nil) == leaves }
	success := t.succeeds(unknown)
	if leavesAfter(success) {
		failures := []scene{t.refuses(unknown)}
		if t.err != nil || isError(s.pass.TypesInfo.TypeOf(t.call)) {
			failures = append(failures, t.failsWith())
		}
		for _, status := range unavailable {
			failures = append(failures, t.answers(status))
		}
		t.fails = slices.DeleteFunc(failures, func(sc scene) bool { return g.walk(t.at, a.loop, sc, nil)&goesOn == 0 })
		if s.observes(t) {
			return polling, len(t.fails) > 0
		}
		return retrying, len(t.fails) > 0
	}
	for _, guess := range []truth{yes, no} {
		if s.givesNew(a, t) {
			break
		}
		for _, status := range []int{200, 0} {
			success = t.succeeds(guess)
			success.status = status
			failure := t.refuses(guess.not())
			if leavesAfter(success) && g.walk(t.at, a.loop, failure, nil)&goesOn != 0 {
				t.fails = []scene{failure}
				return polling, true
			}
		}
	}
	if t.err != nil && s.waitsAfterFailure(g, a, t) {
		t.fails = []scene{t.failsWith()}
		return reconnecting, true
	}
	return 0, false
}

// givesNew reports whether a call gets something that the iteration has made: it is work on an item.
func (s *source) givesNew(a *attempt, t *try) bool {
	return slices.ContainsFunc(t.call.Args, func(arg ast.Expr) bool {
		v := variable(s.pass.TypesInfo, arg)
		return v != nil && !isContext(v.Type()) && !isDuration(v.Type()) && a.body.Pos() <= v.Pos() && v.Pos() < a.body.End()
	})
}

// observes reports whether a call says yes or no, and not why: a loop asks it until something is so.
func (s *source) observes(t *try) bool {
	isBool := func(t types.Type) bool {
		b, ok := orInvalid(t).Underlying().(*types.Basic)
		return ok && b.Info()&types.IsBoolean != 0
	}
	if len(t.outs) == 0 {
		return t.err == nil && t.resp == nil && isBool(s.pass.TypesInfo.TypeOf(t.call))
	}
	return t.err == nil && t.resp == nil && !slices.ContainsFunc(t.outs, func(v *types.Var) bool { return !isBool(v.Type()) })
}

// waitsAfterFailure reports whether a loop without an end waits after an error of a call, and goes
// round without that wait after a success.
func (s *source) waitsAfterFailure(g *graph, a *attempt, t *try) bool {
	if loop, ok := a.loop.(*ast.ForStmt); !ok || s.counted(a) && loop.Cond != nil {
		return false
	}
	failure, success := t.failsWith(), t.succeeds(unknown)
	for _, w := range a.waits {
		if w.at.Pos() > t.call.Pos() && g.reaches(t.at, a.loop, failure, w.at) && !g.reaches(t.at, a.loop, success, w.at) {
			return g.walk(t.at, a.loop, failure, nil)&goesOn != 0
		}
	}
	return false
}

var iterators = regexp.MustCompile(`^(Next|HasNext|Scan|More|Advance|Valid|Pop|Len|len)$`)

// places are names of counters that say where something is.
var places = regexp.MustCompile(`(?i)page|offset|cursor|index|^pos`)

// iterates reports whether a loop goes through items of something: what it does is another
// thing each time.
func (s *source) iterates(loop ast.Stmt) bool {
	f, ok := loop.(*ast.ForStmt)
	if !ok {
		return false
	}
	if init, ok := f.Init.(*ast.AssignStmt); ok {
		if id, ok := init.Lhs[0].(*ast.Ident); ok && places.MatchString(id.Name) {
			return true
		}
	}
	return f.Cond != nil && contains(f.Cond, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && iterators.MatchString(funcName(call))
	})
}

var readsItem = regexp.MustCompile(`^(ReadBytes|ReadString|ReadLine|ReadSlice|ReadRune|Decode|Token|Scan|ReadRecord|ReadPacket)$`)

// replays reports whether a loop reads one item after another, and stops at their end.
func (s *source) replays(a *attempt) bool {
	calls, ends := false, false
	own(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			calls = calls || readsItem.MatchString(funcName(n))
		case *ast.SelectorExpr:
			obj := s.pass.TypesInfo.Uses[n.Sel]
			ends = ends || obj != nil && obj.Name() == "EOF" && obj.Pkg() != nil && obj.Pkg().Path() == "io"
		}
		return true
	})
	return calls && ends
}

// counted reports whether a loop counts its iterations, or is a range over waits.
func (s *source) counted(a *attempt) bool {
	switch loop := a.loop.(type) {
	case *ast.RangeStmt:
		return isCounted(orInvalid(s.pass.TypesInfo.TypeOf(loop.X)))
	case *ast.ForStmt:
		_, ok := loop.Post.(*ast.IncDecStmt)
		return ok
	}
	return false
}

// looks reports whether a loop that waits is one that does the same thing again, and not one
// that slows down the work on items.
func (s *source) looks(a *attempt, varies map[types.Object]bool) bool {
	switch loop := a.loop.(type) {
	case *ast.RangeStmt:
		if _, ok := s.ticks(a, loop.X); !ok {
			return false
		}
	case *ast.ForStmt:
		if s.counted(a) || loop.Init != nil {
			return false
		}
	}
	does, items := inCall(a.loop), false
	own(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s.tells(n) && !logs.MatchString(funcName(n)) {
				does = true
				items = items || s.differs(n, varies)
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				_, timer := s.ticks(a, n.X)
				items = items || !timer && !isDone(n.X)
			}
		case *ast.SendStmt:
			does = true
		}
		return true
	})
	return does && !items
}

// inCall reports whether the condition of a loop calls something.
func inCall(loop ast.Stmt) bool {
	f, ok := loop.(*ast.ForStmt)
	return ok && f.Cond != nil && contains(f.Cond, func(n ast.Node) bool { _, ok := n.(*ast.CallExpr); return ok })
}

// isDone reports whether an expression is what a context or the like closes at its end.
func isDone(e ast.Expr) bool {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		return len(call.Args) == 0
	}
	return strings.Contains(strings.ToLower(types.ExprString(e)), "done") || stops.MatchString(types.ExprString(e))
}

var stops = regexp.MustCompile(`(?i)stop|quit|exit|close|cancel|shutdown`)

var countsTries = regexp.MustCompile(`(?i)attempt|retr|tries|try|times|count`)

// varies returns the variables that make one iteration different from the others.
func (s *source) varies(a *attempt, tries []*try) map[types.Object]bool {
	info, varies := s.pass.TypesInfo, map[types.Object]bool{}
	add := func(e ast.Expr) {
		if v := variable(info, e); v != nil && !isDuration(v.Type()) && !countsTries.MatchString(v.Name()) {
			varies[v] = true
		}
	}
	switch loop := a.loop.(type) {
	case *ast.RangeStmt:
		add(loop.Key)
		add(loop.Value)
	case *ast.ForStmt:
		if init, ok := loop.Init.(*ast.AssignStmt); ok {
			for _, lhs := range init.Lhs {
				add(lhs)
			}
		}
		if post, ok := loop.Post.(*ast.AssignStmt); ok { // for p := list; p != nil; p = p.next
			for _, lhs := range post.Lhs {
				add(lhs)
			}
		}
	}
	var outs []types.Object
	for _, t := range tries {
		for _, v := range t.outs {
			outs = append(outs, v)
		}
		if t.resp != nil {
			outs = append(outs, t.resp)
		}
	}
	for before := -1; before != len(varies); { // what a loop counts makes other things vary
		before = len(varies)
		s.variesFrom(a, tries, nil, varies)
	}
	s.variesFrom(a, tries, outs, varies)
	return varies
}

// variesFrom adds the variables that are set to something that varies, or to a part of an answer.
func (s *source) variesFrom(a *attempt, tries []*try, outs []types.Object, varies map[types.Object]bool) {
	info := s.pass.TypesInfo
	own(a.body, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok { // var request = newRequest(endpoint)
			for i, name := range spec.Names {
				if v := variable(info, name); v != nil && len(spec.Values) > 0 && s.differs(spec.Values[min(i, len(spec.Values)-1)], varies) && !isError(v.Type()) {
					addVar(varies, v)
				}
			}
		}
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		from := s.differs(assign, varies) || contains(assign, func(m ast.Node) bool {
			u, ok := m.(*ast.UnaryExpr)
			return ok && u.Op == token.ARROW
		})
		if s.differs(assign, varies) { // into what is given by its address
			for _, arg := range addressed(assign) {
				if v := root(info, arg); v != nil && !isError(v.Type()) {
					addVar(varies, v)
				}
			}
		}
		for i, lhs := range assign.Lhs {
			v := root(info, lhs)
			if v == nil || isError(v.Type()) || isContext(v.Type()) {
				continue
			}
			// What is kept of one answer for the next question: token = page.Next
			rhs := assign.Rhs[min(i, len(assign.Rhs)-1)]
			kept := v.Pos() < a.loop.Pos() && len(outs) > 0 && mentions(info, rhs, slices.DeleteFunc(slices.Clone(outs), func(o types.Object) bool { return o == v })...) && !isTried(tries, rhs)
			if from || kept || assign.Tok == token.ADD_ASSIGN && mentions(info, rhs, outs...) {
				addVar(varies, v)
			}
		}
		return true
	})
}

// addressed returns what a statement gives to calls by its address.
func addressed(n ast.Node) []ast.Expr {
	var found []ast.Expr
	own(n, func(m ast.Node) bool {
		if call, ok := m.(*ast.CallExpr); ok {
			for _, arg := range call.Args {
				if u, ok := ast.Unparen(arg).(*ast.UnaryExpr); ok && u.Op == token.AND {
					found = append(found, u.X)
				}
			}
		}
		return true
	})
	return found
}

func addVar(varies map[types.Object]bool, v *types.Var) {
	if !isDuration(v.Type()) && !countsTries.MatchString(v.Name()) {
		varies[v] = true
	}
}

// isTried reports whether an expression is one of the calls.
func isTried(tries []*try, e ast.Expr) bool {
	return slices.ContainsFunc(tries, func(t *try) bool { return ast.Expr(t.call) == ast.Unparen(e) })
}

// root returns the variable in which an expression sets something: opts of opts.Page.
func root(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return variable(info, e)
		}
	}
}

// differs reports whether a node has one of the variables.
func (s *source) differs(n ast.Node, varies map[types.Object]bool) bool {
	return len(varies) > 0 && contains(n, func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		return ok && varies[s.pass.TypesInfo.ObjectOf(id)]
	})
}

var aboutRetries = regexp.MustCompile(`(?i)retr(y|i)|attempt|backoff|tries`)

// looksLikeRetry reports whether there is a sign that a loop does the same thing again because
// it failed: a wait, or a name.
func (s *source) looksLikeRetry(a *attempt) bool {
	if len(a.waits) > 0 || a.decl != nil && aboutRetries.MatchString(a.decl.Name.Name) {
		return true
	}
	return contains(a.loop, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && aboutRetries.MatchString(id.Name)
	})
}

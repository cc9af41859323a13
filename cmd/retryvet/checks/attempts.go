package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// attempt is code that is run again when it fails.
type attempt struct {
	body *ast.BlockStmt // of the loop, or of the function given to a library
	in   *ast.BlockStmt // the body of the function with the loop or the call
	decl *ast.FuncDecl  // the declaration it is in, or nil
	sig  *types.Signature

	// A loop by hand.
	loop  ast.Stmt
	tries []try
	waits []wait

	// A function given to a library.
	lib  *library
	call *ast.CallExpr // of the library
	lit  *ast.FuncLit
}

// try is a call in a loop whose failure makes the loop go round, and whose success ends it.
type try struct {
	call *ast.CallExpr
	at   place
	err  *types.Var // where its error goes
	resp *types.Var // where its *http.Response goes, or nil
}

// wait is a wait in a loop.
type wait struct {
	node          ast.Node // the statement
	at            ast.Node // the same, or the clause of a select
	dur           ast.Expr // nil if not known
	interruptible bool     // by a context, or something else
}

// findAttempts finds the attempts in a file.
func (s *source) findAttempts(file *ast.File) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			ast.Inspect(decl, func(n ast.Node) bool {
				if lit, ok := n.(*ast.FuncLit); ok {
					s.inBody(lit.Body, nil, s.signature(lit))
					return false
				}
				return true
			})
			continue
		}
		if f.Body != nil {
			s.inBody(f.Body, f, s.signature(f))
		}
	}
}

func (s *source) signature(n ast.Node) *types.Signature {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if f, ok := s.pass.TypesInfo.Defs[n.Name].(*types.Func); ok {
			return f.Signature()
		}
	case *ast.FuncLit:
		if sig, ok := s.pass.TypesInfo.TypeOf(n).(*types.Signature); ok {
			return sig
		}
	}
	return types.NewSignatureType(nil, nil, nil, nil, nil, false)
}

// inBody finds the attempts in the body of a function, and in the functions in it.
func (s *source) inBody(body *ast.BlockStmt, decl *ast.FuncDecl, sig *types.Signature) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			s.inBody(n.Body, decl, s.signature(n))
			return false
		case *ast.ForStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.RangeStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.CallExpr:
			if lib, lit := s.retried(n, body); lib != nil {
				s.attempts = append(s.attempts, &attempt{
					lib: lib, call: n, lit: lit, body: lit.Body, in: body, decl: decl, sig: sig,
				})
			}
		}
		return true
	})
}

// addLoop adds a loop if it is one that retries.
func (s *source) addLoop(a *attempt) {
	if s.iterates(a.loop) {
		return
	}
	g := s.graph(a.in)
	varies := s.varies(a)
	for _, b := range g.Blocks {
		if !b.Live {
			continue
		}
		for i, n := range b.Nodes {
			if n.Pos() < a.body.Pos() || n.End() > a.body.End() || !inmost(a, n) {
				continue
			}
			if t, ok := s.try(n, place{b, i}); ok && retries(g, a, t) && !s.differs(t.call, varies) {
				a.tries = append(a.tries, t)
			}
		}
	}
	if len(a.tries) == 0 {
		return
	}
	a.waits = s.waits(a)
	if s.looksLikeRetry(a) {
		s.attempts = append(s.attempts, a)
	}
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

// try returns the call whose error a node assigns.
func (s *source) try(n ast.Node, at place) (try, bool) {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return try{}, false
	}
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return try{}, false
	}
	t := try{call: call, at: at, err: variable(s.pass.TypesInfo, assign.Lhs[len(assign.Lhs)-1])}
	if t.err == nil || !isError(t.err.Type()) || s.pass.TypesInfo.Types[call.Fun].IsType() {
		return try{}, false
	}
	if strings.HasPrefix(calleeName(s.pass.TypesInfo, call), "fmt.Errorf") || calleeName(s.pass.TypesInfo, call) == "errors.New" {
		return try{}, false
	}
	for _, lhs := range assign.Lhs {
		if v := variable(s.pass.TypesInfo, lhs); v != nil && isResponse(v.Type()) {
			t.resp = v
		}
	}
	return t, true
}

func isResponse(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return pointer && isType(t, "net/http", "Response")
}

// retries reports whether a loop goes round when a call fails, and ends when all succeeds. A
// response of a server that cannot answer now is a failure too.
func retries(g *graph, a *attempt, t try) bool {
	success := scene{fine: true, err: t.err, nilErr: isNil, resp: t.resp}
	if t.resp != nil {
		success.status = 200
	}
	if g.walk(t.at, a.loop, success, nil) != leaves {
		return false
	}
	if g.walk(t.at, a.loop, scene{err: t.err, nilErr: notNil, resp: t.resp}, nil)&goesOn != 0 {
		return true
	}
	for _, status := range []int{429, 503} {
		success.status, success.fine = status, false
		if t.resp != nil && g.walk(t.at, a.loop, success, nil)&goesOn != 0 {
			return true
		}
	}
	return false
}

var iterators = regexp.MustCompile(`^(Next|HasNext|Scan|More|Advance|Valid|Pop|Len)$`)

// iterates reports whether a loop goes through items of something: what it does is another
// thing each time.
func (s *source) iterates(loop ast.Stmt) bool {
	f, ok := loop.(*ast.ForStmt)
	return ok && f.Cond != nil && contains(f.Cond, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && iterators.MatchString(funcName(call))
	})
}

var countsTries = regexp.MustCompile(`(?i)attempt|retr|tries|try|times|count`)

// varies returns the variables that make one iteration different from the others.
func (s *source) varies(a *attempt) map[types.Object]bool {
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
	own(a.body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		from := s.differs(assign, varies) || contains(assign, func(m ast.Node) bool {
			u, ok := m.(*ast.UnaryExpr)
			return ok && u.Op == token.ARROW
		})
		for _, lhs := range assign.Lhs {
			if v := variable(info, lhs); v != nil && from && !isError(v.Type()) && !isContext(v.Type()) {
				add(lhs)
			}
		}
		return true
	})
	return varies
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

// waits returns the waits of a loop, those in loops and functions in it left out.
func (s *source) waits(a *attempt) []wait {
	var waits []wait
	own(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				comm := clause.(*ast.CommClause)
				if dur, ok := s.timer(comm.Comm); ok {
					waits = append(waits, wait{n, comm.Comm, dur, len(n.Body.List) > 1})
				}
				for _, stmt := range comm.Body {
					if w, ok := s.sleeps(stmt); ok {
						waits = append(waits, w)
					}
				}
			}
			return false
		case ast.Stmt:
			if w, ok := s.sleeps(n); ok {
				waits = append(waits, w)
			}
		}
		return true
	})
	return waits
}

var pauses = regexp.MustCompile(`(?i)^(sleep|wait|pause)((with)?_?(ctx|context|cancel|for|or\w+))?$`)

// sleeps returns the wait that a statement is: one that does nothing else.
func (s *source) sleeps(n ast.Stmt) (wait, bool) {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.AssignStmt: // err := sleep(ctx, d)
		e = n.Rhs[0]
	}
	call, ok := ast.Unparen(orNil(e)).(*ast.CallExpr)
	if !ok {
		dur, ok := s.timer(n)
		return wait{n, n, dur, false}, ok
	}
	info := s.pass.TypesInfo
	switch name := calleeName(info, call); {
	case name == "time.Sleep":
		return wait{n, n, call.Args[0], false}, true
	case len(call.Args) == 2 && isContext(info.TypeOf(call.Args[0])) && isDuration(info.TypeOf(call.Args[1])) && pauses.MatchString(funcName(call)):
		return wait{n, n, call.Args[1], true}, true
	}
	return wait{}, false
}

// timer returns the duration of a statement that receives from a timer.
func (s *source) timer(n ast.Stmt) (ast.Expr, bool) {
	expr, ok := n.(*ast.ExprStmt)
	if !ok {
		return nil, false
	}
	recv, ok := ast.Unparen(expr.X).(*ast.UnaryExpr)
	if !ok || recv.Op != token.ARROW {
		return nil, false
	}
	switch x := ast.Unparen(recv.X).(type) {
	case *ast.CallExpr:
		if calleeName(s.pass.TypesInfo, x) == "time.After" && len(x.Args) == 1 {
			return x.Args[0], true
		}
	case *ast.SelectorExpr:
		if x.Sel.Name == "C" && isType(s.pass.TypesInfo.TypeOf(x.X), "time", "Timer") {
			return nil, true
		}
	}
	return nil, false
}

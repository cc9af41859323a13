package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"time"
)

// shortWait is the shortest wait that is worth a finding.
const shortWait = 100 * time.Millisecond

// wait is a wait in a loop.
type wait struct {
	node          ast.Node // the statement, or the keyword of a loop that waits in its header
	at            ast.Node // the same, or the clause of a select
	dur           ast.Expr // nil if not known
	interruptible bool     // by a context, or something else
}

// short reports whether a wait is certainly too short to matter, or is the time until a short one is
// over.
func (s *source) short(a *attempt, w wait) bool {
	dur := w.dur
	if until, is := ast.Unparen(orNil(dur)).(*ast.CallExpr); is && calleeName(s.pass.TypesInfo, until) == "time.Until" {
		if add, is := ast.Unparen(until.Args[0]).(*ast.CallExpr); is && calleeName(s.pass.TypesInfo, add) == "time.Time.Add" {
			dur = add.Args[0]
		}
	}
	d, ok := s.atMost(a, dur)
	return ok && d < float64(shortWait)
}

// waits returns the waits of a loop, those in loops and functions in it left out.
func (s *source) waits(a *attempt) []wait {
	var waits []wait
	if loop, ok := a.loop.(*ast.RangeStmt); ok { // for range ticker.C
		if dur, ok := s.ticks(a, loop.X); ok {
			waits = append(waits, wait{node: keyword{loop}, at: loop.X, dur: dur})
		}
	}
	received := map[ast.Stmt]bool{} // by a select
	own(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.IfStmt: // if !timer.Stop() { <-timer.C }
			return !contains(n.Cond, func(m ast.Node) bool {
				call, ok := m.(*ast.CallExpr)
				return ok && calleeName(s.pass.TypesInfo, call) == "time.Timer.Stop"
			})
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				comm := clause.(*ast.CommClause)
				received[comm.Comm] = true
				if dur, ok := s.received(a, comm.Comm); ok {
					waits = append(waits, wait{n, comm.Comm, dur, len(n.Body.List) > 1})
				}
			}
		case ast.Stmt:
			if w, ok := s.sleeps(a, n); ok && !received[n] {
				waits = append(waits, w)
			}
		}
		return true
	})
	return slices.DeleteFunc(waits, provoked)
}

var provokes = regexp.MustCompile(`Race($|[A-Z])|^race|(?i)inject|simulat|chaos`)

// provoked reports whether a wait is there to provoke something, by a name in its duration. It comes
// in the middle of an attempt, and is no wait for the next one.
func provoked(w wait) bool {
	return contains(w.dur, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && provokes.MatchString(id.Name)
	})
}

var pauses = regexp.MustCompile(`(?i)^(sleep|wait|pause)((with)?_?(ctx|context|cancel|for|or\w+))?$`)

// sleeps returns the wait that a statement is: one that does nothing else.
func (s *source) sleeps(a *attempt, n ast.Stmt) (wait, bool) {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.AssignStmt: // err := sleep(ctx, d)
		e = n.Rhs[0]
	}
	call, ok := ast.Unparen(orNil(e)).(*ast.CallExpr)
	if !ok {
		dur, ok := s.received(a, n)
		return wait{n, n, dur, false}, ok
	}
	info := s.pass.TypesInfo
	f := callee(info, call)
	if dur, interruptible, ok := s.pause(f, call); ok {
		return wait{n, n, dur, interruptible}, true
	}
	switch {
	case calleeName(info, call) == "time.Sleep":
		return wait{n, n, call.Args[0], false}, true
	case len(call.Args) == 1 && isDuration(info.TypeOf(call.Args[0])) && funcName(call) == "Sleep" && s.decl(f) == nil: // of a clock
		return wait{n, n, call.Args[0], false}, true
	case len(call.Args) == 2 && isContext(info.TypeOf(call.Args[0])) && isDuration(info.TypeOf(call.Args[1])) && pauses.MatchString(funcName(call)):
		return wait{n, n, call.Args[1], true}, true
	}
	return wait{}, false
}

// pause returns what a call waits for, if it calls a function of this package that does nothing
// but wait: it sleeps once, and calls nothing else that could fail or take time.
func (s *source) pause(f *types.Func, call *ast.CallExpr) (dur ast.Expr, interruptible, ok bool) {
	decl := s.decl(f)
	if decl == nil || len(decl.Body.List) > 8 {
		return nil, false, false
	}
	sleeps, busy := 0, false
	own(decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.GoStmt:
			busy = true
		case *ast.SelectStmt:
			interruptible = true
		case *ast.CallExpr:
			switch {
			case calleeName(s.pass.TypesInfo, n) == "time.Sleep":
				sleeps++
				dur = argument(s.pass.TypesInfo, f, call, n.Args[0])
			case returnsError(s.pass.TypesInfo, n) || f == callee(s.pass.TypesInfo, n):
				busy = true
			}
		}
		return true
	})
	return dur, interruptible, sleeps == 1 && !busy
}

// argument returns what a call gives for an expression of the function that it calls, or the
// expression itself if that is no parameter.
func argument(info *types.Info, f *types.Func, call *ast.CallExpr, e ast.Expr) ast.Expr {
	v := variable(info, e)
	i := 0
	for p := range f.Signature().Params().Variables() {
		if v != nil && p == v && i < len(call.Args) && !f.Signature().Variadic() {
			return call.Args[i]
		}
		i++
	}
	return e
}

// received returns the duration of a statement that receives from a timer or a ticker.
func (s *source) received(a *attempt, n ast.Stmt) (ast.Expr, bool) {
	if from := channel(n); from != nil {
		return s.ticks(a, from)
	}
	return nil, false
}

// channel returns what a statement receives from, and does nothing else, or nil: <-done, now := <-ticker.C.
func channel(n ast.Stmt) ast.Expr {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.AssignStmt:
		e = n.Rhs[0]
	}
	if recv, ok := ast.Unparen(orNil(e)).(*ast.UnaryExpr); ok && recv.Op == token.ARROW {
		return recv.X
	}
	return nil
}

// ticks returns the time after which a channel of a timer or a ticker receives something.
func (s *source) ticks(a *attempt, channel ast.Expr) (ast.Expr, bool) {
	info := s.pass.TypesInfo
	switch x := ast.Unparen(channel).(type) {
	case *ast.CallExpr:
		name := calleeName(info, x)
		if (name == "time.After" || name == "time.Tick") && len(x.Args) == 1 {
			return x.Args[0], true
		}
	case *ast.SelectorExpr:
		if x.Sel.Name == "C" && (isType(info.TypeOf(x.X), "time", "Timer") || isType(info.TypeOf(x.X), "time", "Ticker")) {
			return s.setTo(a, x.X), true
		}
	case *ast.Ident:
		if made, ok := ast.Unparen(orNil(s.graph(a.in).defs[variable(info, x)])).(*ast.CallExpr); ok {
			return s.ticks(a, made)
		}
	}
	return nil, false
}

// setTo returns the duration of a timer or a ticker if it has only one.
func (s *source) setTo(a *attempt, timer ast.Expr) ast.Expr {
	made, ok := ast.Unparen(orNil(s.graph(a.in).defs[variable(s.pass.TypesInfo, timer)])).(*ast.CallExpr)
	if !ok || len(made.Args) != 1 {
		return nil
	}
	resets := contains(a.in, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Reset" && variable(s.pass.TypesInfo, sel.X) == variable(s.pass.TypesInfo, timer)
	})
	if resets {
		return nil
	}
	return made.Args[0]
}

package checks

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// Leak reports a response that is not closed before the next attempt.
var Leak = newCheck("leak", `report a response that is not closed before the next attempt

A response without an error has a body, also if its status is 503. A loop that goes on without
closing it leaves a connection open for each attempt. bodyclose does not find this when the
last response is closed.`, leak)

func leak(u *unit) {
	for _, a := range u.attempts {
		if a.kind == polling && len(a.tries) == 0 {
			continue
		}
		for _, r := range u.responses(a) {
			body, at := a.in, r.at
			loop := a.loop
			if a.lib != nil {
				body = a.body
			}
			g := u.graph(body)
			if u.isOpen(r.call) && !u.closesFirst(a, r) && u.leaks(g, r, at, loop) {
				u.report(r.call, "the body of the response is not closed before the next attempt")
			}
		}
	}
}

// responses returns the calls of an attempt that return an *http.Response.
func (s *source) responses(a *attempt) []*try {
	body := a.in
	if a.lib != nil {
		body = a.body
	}
	var found []*try
	for _, b := range s.graph(body).Blocks {
		for i, n := range b.Nodes {
			if !b.Live || n.Pos() < a.body.Pos() || n.End() > a.body.End() || a.loop != nil && !inmost(a, n) {
				continue
			}
			if t := s.try(n, place{b, i}); t != nil && t.resp != nil {
				found = append(found, t)
			}
		}
	}
	return found
}

// isOpen reports whether the response that a call returns has an open body. What returns more than it
// has read the body, as clients that are generated do, and a function of this package may have closed it.
func (u *unit) isOpen(call *ast.CallExpr) bool {
	if results, ok := u.TypesInfo.TypeOf(call).(*types.Tuple); ok && results.Len() > 2 {
		return false
	}
	decl := u.decl(callee(u.TypesInfo, call))
	return decl == nil || !contains(decl, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Close" && strings.HasSuffix(types.ExprString(sel.X), ".Body")
	})
}

// closesFirst reports whether an attempt begins with what the one before has left.
func (u *unit) closesFirst(a *attempt, r *try) bool {
	closes := false
	own(a.body, func(n ast.Node) bool {
		if stmt, ok := n.(*ast.ExprStmt); ok && stmt.End() < r.call.Pos() {
			closes = closes || u.takes(stmt, r.resp)
		}
		return true
	})
	return closes
}

// leaks reports whether a failed attempt ends with its response open.
func (u *unit) leaks(g *graph, r *try, at place, loop ast.Stmt) bool {
	leaked := false
	for _, status := range unavailable {
		sc := r.answers(status)
		failed := false
		out := g.walk(at, loop, sc, func(n ast.Node, sc scene) bool {
			if u.takes(n, r.resp) {
				return false
			}
			if ret, ok := n.(*ast.ReturnStmt); ok {
				failed = failed || loop == nil && fails(g, ret)
			}
			return true
		})
		leaked = leaked || loop != nil && out&goesOn != 0 || failed
	}
	return leaked
}

// fails reports whether a return certainly returns an error.
func fails(g *graph, ret *ast.ReturnStmt) bool {
	return len(ret.Results) > 0 && g.nilness(ret.Results[len(ret.Results)-1]) == notNil
}

// takes reports whether a node closes a response, or gives it to something that may.
func (u *unit) takes(n ast.Node, resp *types.Var) bool {
	taken := false
	ast.PreorderStack(n, nil, func(m ast.Node, around []ast.Node) bool {
		switch m := m.(type) {
		case *ast.Ident:
			if u.TypesInfo.Uses[m] == resp {
				taken = taken || !u.onlyLooks(append(around, m))
			}
		case *ast.CallExpr: // a function in the same function may close it
			if lit := u.closure(m); lit != nil {
				taken = taken || u.takes(lit.Body, resp)
			}
		}
		return true
	})
	return taken
}

// closure returns the function literal that a call calls, if the variable it names has no other, and
// does not call itself.
func (u *unit) closure(call *ast.CallExpr) *ast.FuncLit {
	v := variable(u.TypesInfo, call.Fun)
	if v == nil {
		return nil
	}
	for _, g := range u.graphs {
		if lit, ok := ast.Unparen(orNil(g.defs[v])).(*ast.FuncLit); ok && (call.Pos() < lit.Pos() || lit.End() < call.Pos()) {
			return lit
		}
	}
	return nil
}

// readers are functions that read a body, not to its end, and do not close it. One that was read to its
// end has freed its connection.
var readers = map[string]bool{
	"io.CopyN": true, "io.ReadFull": true,
	"encoding/json.NewDecoder": true, "encoding/xml.NewDecoder": true, "io.LimitReader": true, "bufio.NewReader": true,
	"bufio.NewScanner": true,
}

// onlyLooks reports whether the last node of a stack, a response, is only looked at: its
// status, its header, or its body without closing it.
func (u *unit) onlyLooks(stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	switch parent := stack[len(stack)-2].(type) {
	case *ast.BinaryExpr: // resp != nil
		return true
	case *ast.SelectorExpr:
		if parent.Sel.Name != "Body" {
			return u.TypesInfo.Selections[parent] != nil && u.TypesInfo.Selections[parent].Kind() == types.FieldVal ||
				parent.Sel.Name == "Cookies" || parent.Sel.Name == "Location"
		}
		if len(stack) < 3 {
			return false
		}
		switch up := stack[len(stack)-3].(type) {
		case *ast.CallExpr:
			return readers[calleeName(u.TypesInfo, up)]
		case *ast.BinaryExpr:
			return true
		}
	case *ast.CallExpr:
		return looksAt.MatchString(funcName(parent))
	}
	return false
}

// looksAt are names of functions that decide about a response and do not close it.
var looksAt = regexp.MustCompile(`(?i)^(should|is|can|needs?|must|check)_?(retry|retri)|(?i)^(delay|backoff|wait)|(?i)retrydelay$|(?i)retryafter`)

package checks

import (
	"go/ast"
	"go/constant"
	"regexp"
	"time"
)

// Sleep reports a wait between attempts that a context cannot interrupt.
var Sleep = newCheck("sleep", `report a wait between attempts that ignores the context

A loop that retries and waits with time.Sleep goes on waiting when its context has ended: the
program does not stop, and the caller of a request that was canceled waits for nothing.`, sleep)

func sleep(u *unit) {
	for _, a := range u.attempts {
		if a.loop != nil && u.stopsItself(a) {
			continue
		}
		for _, w := range a.waits {
			if w.interruptible || u.short(a, w) || !u.between(a, w) || u.ended(a, w) || u.briefly(a, w) {
				continue
			}
			ctx := u.contextAt(w.node.Pos(), a.loop)
			if ctx == "" || a.kind != retrying && !u.near(a, ctx) || u.outlives(a, ctx) {
				continue
			}
			u.report(w.node, "the wait before the next "+a.kind.round()+" ignores "+ctx, u.selectFix(a, w, ctx)...)
		}
	}
}

// duration returns the value of a constant duration.
func (s *source) duration(e ast.Expr) (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	v := s.pass.TypesInfo.Types[e].Value
	if v == nil {
		return 0, false
	}
	d, exact := constant.Int64Val(constant.ToInt(v))
	return time.Duration(d), exact
}

// NoJitter reports waits that are the same in every process.
var NoJitter = newCheck("nojitter", `report waits without jitter in a loop that calls a server (off by default)

Clients that failed together wait the same time and come back together, and the server fails
again. The check is advice: one process that calls one server does no harm.`, func(u *unit) {
	for _, a := range u.attempts {
		if a.loop == nil || a.kind != retrying || !u.callsServer(a) || jitters(u.scopeOf(a)) {
			continue
		}
		for _, w := range a.waits {
			if d, ok := u.duration(w.dur); ok && d < shortWait || w.dur == nil || hasCall(w.dur) {
				continue
			}
			u.report(w.node, "all clients that failed together come back together: add jitter")
		}
	}
})

var random = regexp.MustCompile(`(?i)jitter|rand`)

func jitters(n ast.Node) bool {
	return contains(n, func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		return ok && random.MatchString(id.Name)
	})
}

// hasCall reports whether an expression calls a function, which may add jitter. A conversion
// such as time.Duration(n) does not.
func hasCall(e ast.Expr) bool {
	return contains(e, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && funcName(call) != "Duration"
	})
}

var servers = regexp.MustCompile(`(?i)^(net|net/http|database/sql|google\.golang\.org/grpc|.*/(redis|rueidis|mongo|kafka|aws-sdk-go|client-go|pgx|ethclient|rpc|http|api|client)([/.].*)?)$`)

// callsServer reports whether what is tried is a call over a network.
func (u *unit) callsServer(a *attempt) bool {
	for _, t := range a.tries {
		if t.resp != nil {
			return true
		}
		if f := callee(u.TypesInfo, t.call); f != nil && f.Pkg() != nil && servers.MatchString(unvendored(f.Pkg().Path())) {
			return true
		}
	}
	return false
}

package checks

import (
	"go/ast"
	"regexp"
)

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

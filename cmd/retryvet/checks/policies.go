package checks

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"time"
)

// NonIdempotent reports a classifier that has no effect in a policy for operations that must not
// happen twice.
var NonIdempotent = newCheck("nonidempotent", `report retry.On(retry.Retryable, …) in a policy with NonIdempotent

A policy with NonIdempotent retries only what certainly had no effect. On gives a class, and no
proof, so nothing is retried. Return a Verdict with NotApplied, or mark the error.`, func(u *unit) {
	u.policies(func(fields map[string]ast.Expr) {
		v := u.TypesInfo.Types[orNil(fields["NonIdempotent"])].Value
		if v == nil || v.Kind() != constant.Bool || !constant.BoolVal(v) || fields["Classifier"] == nil {
			return
		}
		ast.Inspect(fields["Classifier"], func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || calleeName(u.TypesInfo, call) != self+".On" || len(call.Args) == 0 {
				return true
			}
			if c, ok := call.Args[0].(*ast.SelectorExpr); ok && (c.Sel.Name == "Retryable" || c.Sel.Name == "RateLimited") {
				u.report(call, "with NonIdempotent this retries nothing: On does not say that the operation was not applied")
			}
			return true
		})
	})
})

// policies calls f with the fields of every literal of a retry.Policy, or of a struct that
// embeds one and names its fields, which Go allows since 1.27.
func (u *unit) policies(f func(fields map[string]ast.Expr)) {
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, elt := range lit.Elts {
				if kv, ok := elt.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok && ofPolicy(u.TypesInfo.Uses[key]) {
						fields[key.Name] = kv.Value
					}
				}
			}
			if len(fields) > 0 {
				f(fields)
			}
			return true
		})
	}
}

// ofPolicy reports whether a key of a literal is a field of retry.Policy.
func ofPolicy(key types.Object) bool {
	field, ok := key.(*types.Var)
	if !ok || !field.IsField() || field.Pkg() == nil || unvendored(field.Pkg().Path()) != self {
		return false
	}
	policy := field.Pkg().Scope().Lookup("Policy")
	if policy == nil {
		return false
	}
	of, ok := policy.Type().Underlying().(*types.Struct)
	return ok && slices.Contains(slices.Collect(of.Fields()), field)
}

// PastTimeout reports a retry.Schedule whose waits do not fit into the policy's time.
var PastTimeout = newCheck("pasttimeout", `report a retry.Schedule that is longer than the time of its policy

A wait that would end after Timeout or MaxElapsed is not begun. The attempts after it, which the
schedule lists, are never made.`, func(u *unit) {
	u.policies(func(fields map[string]ast.Expr) {
		schedule, ok := ast.Unparen(orNil(fields["Backoff"])).(*ast.CompositeLit)
		if !ok || !isType(u.TypesInfo.TypeOf(schedule), self, "Schedule") {
			return
		}
		for _, name := range []string{"Timeout", "MaxElapsed"} {
			limit, ok := u.duration(fields[name])
			if !ok || limit <= 0 {
				continue
			}
			if sum, ok := u.sum(schedule, u.retries(fields)); ok && sum > limit {
				u.report(schedule, fmt.Sprintf("the waits add up to %s, and %s is %s: the last attempts are never made", sum, name, limit))
				return
			}
		}
	})
})

// retries returns how many retries a policy allows.
func (u *unit) retries(fields map[string]ast.Expr) int {
	if fields["MaxAttempts"] == nil {
		return 2
	}
	v := u.TypesInfo.Types[fields["MaxAttempts"]].Value
	if v == nil {
		return 0
	}
	n, exact := constant.Int64Val(v)
	if !exact || n < 1 || n > 1000 {
		return 0
	}
	return int(n) - 1
}

// sum adds up the first waits of a schedule, as many as there are.
func (u *unit) sum(schedule *ast.CompositeLit, n int) (sum time.Duration, ok bool) {
	for _, e := range schedule.Elts[:min(n, len(schedule.Elts))] {
		d, ok := u.duration(e)
		if !ok {
			return 0, false
		}
		sum += d
	}
	return sum, true
}

// PolicyChange reports a retry.Policy that is changed while it is in use.
var PolicyChange = newCheck("policychange", `report a retry.Policy that is changed while it is in use

A Policy is shared by the calls under it and has no lock. The check reports a change in the
function that is retried under the policy, and of a policy of the package in a function other
than init and main. Copy the policy, and change the copy.`, func(u *unit) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			setup := f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main")
			ast.Inspect(f.Body, func(n ast.Node) bool {
				assign, ok := n.(*ast.AssignStmt)
				if !ok {
					return true
				}
				for _, lhs := range assign.Lhs {
					if v := u.changed(lhs); v != nil && (u.retriedUnder(v, assign) || !setup && v.Parent() == u.Pkg.Scope()) {
						u.report(lhs, "changes a policy that calls in progress share: change a copy")
					}
				}
				return true
			})
		}
	}
})

// changed returns the variable with the policy whose field is set, or nil.
func (u *unit) changed(lhs ast.Expr) *types.Var {
	sel, ok := lhs.(*ast.SelectorExpr)
	if !ok || !isType(u.TypesInfo.TypeOf(sel.X), self, "Policy") {
		return nil
	}
	return variable(u.TypesInfo, sel.X)
}

// retriedUnder reports whether a statement is in a function that is retried under a policy.
func (u *unit) retriedUnder(v *types.Var, stmt ast.Stmt) bool {
	for _, a := range u.attempts {
		if a.lit == nil || stmt.Pos() < a.lit.Pos() || a.lit.End() < stmt.End() {
			continue
		}
		if sel, ok := a.call.Fun.(*ast.SelectorExpr); ok && variable(u.TypesInfo, sel.X) == v {
			return true
		}
		if len(a.call.Args) > 2 && mentions(u.TypesInfo, a.call.Args[1], v) {
			return true
		}
	}
	return false
}

// TwoTurns reports a Quota that both a Worker and the Transport of its requests ask.
var TwoTurns = newCheck("twoturns", `report a Quota of both a retrytable.Worker and a retryhttp.Transport

A job takes a turn of the Quota before it runs, and its request takes another: the limit is used up
twice as fast. Give the Quota to one of the two.`, func(u *unit) {
	workers := map[types.Object]bool{}
	u.quotas("retrytable", "Worker", func(_ ast.Expr, quota types.Object) { workers[quota] = true })
	u.quotas("retryhttp", "Transport", func(at ast.Expr, quota types.Object) {
		if workers[quota] {
			u.report(at, "a job of the Worker needs two turns of this Quota, one for itself and one for its request: leave it out of one of the two policies")
		}
	})
})

// quotas calls f for the Quota in the policy of every literal of a type of this library.
func (u *unit) quotas(pkg, name string, f func(at ast.Expr, quota types.Object)) {
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			t := u.TypesInfo.TypeOf(lit)
			if t == nil || !isType(t, self+"/"+pkg, name) {
				return true
			}
			policy, ok := u.policyLiteral(field(lit, "Policy"))
			if !ok {
				return true
			}
			at := field(policy, "Quota")
			if sel, ok := at.(*ast.SelectorExpr); ok {
				f(at, u.TypesInfo.ObjectOf(sel.Sel))
			} else if v := variable(u.TypesInfo, at); v != nil {
				f(at, v)
			}
			return true
		})
	}
}

// field returns the value of a field in a literal, or nil.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, elt := range lit.Elts {
		if kv, ok := elt.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return kv.Value
			}
		}
	}
	return nil
}

// policyLiteral returns the literal that an expression is, points to, or names.
func (u *unit) policyLiteral(e ast.Expr) (*ast.CompositeLit, bool) {
	e = ast.Unparen(orNil(e))
	if ref, ok := e.(*ast.UnaryExpr); ok && ref.Op == token.AND {
		e = ast.Unparen(ref.X)
	}
	if v := variable(u.TypesInfo, e); v != nil {
		for _, file := range u.files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for i, lhs := range n.Lhs {
						if len(n.Lhs) == len(n.Rhs) && variable(u.TypesInfo, lhs) == v {
							e = n.Rhs[i]
						}
					}
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if len(n.Names) == len(n.Values) && u.TypesInfo.Defs[name] == v {
							e = n.Values[i]
						}
					}
				}
				return true
			})
		}
		if ref, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && ref.Op == token.AND {
			e = ref.X
		}
	}
	lit, ok := ast.Unparen(e).(*ast.CompositeLit)
	return lit, ok && isType(u.TypesInfo.TypeOf(lit), self, "Policy")
}

package checks

import (
	"go/ast"
	"go/constant"
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

// policies calls f with the fields of every literal of a retry.Policy.
func (u *unit) policies(f func(fields map[string]ast.Expr)) {
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || !isType(u.TypesInfo.TypeOf(lit), self, "Policy") {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, elt := range lit.Elts {
				if kv, ok := elt.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						fields[key.Name] = kv.Value
					}
				}
			}
			f(fields)
			return true
		})
	}
}

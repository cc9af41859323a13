package checks

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
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

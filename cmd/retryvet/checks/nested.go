package checks

import (
	"go/ast"
	"go/types"
	"regexp"
)

// Nested reports a retry around something that retries by itself.
var Nested = newCheck("nested", `report a retry around a client that retries by itself

Three attempts around three are nine, and the waits add up too. The check reports a loop that
repeats every failure of a client that has repeated it already. A loop that looks at the error
may have a reason.`, nested)

func nested(u *unit) {
	for _, a := range u.attempts {
		if a.kind != retrying || a.loop != nil && u.selective(a) {
			continue
		}
		own(a.body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || a.loop != nil && !tried(a, call) {
				return true
			}
			if by := u.retriesItself(a, call); by != "" && (a.loop != nil || !u.selectiveBody(a)) {
				u.report(call, by+", so attempts multiply: retry at one place")
			}
			return true
		})
	}
}

// tried reports whether a call is an attempt of a loop, or in one.
func tried(a *attempt, call *ast.CallExpr) bool {
	for _, t := range a.tries {
		if t.onError() && t.call.Pos() <= call.Pos() && call.End() <= t.call.End() {
			return true
		}
	}
	return false
}

// selectiveBody reports whether a function that is retried looks at its errors: it uses marks,
// or calls something with the error.
func (u *unit) selectiveBody(a *attempt) bool {
	return contains(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		if u.marker(call) != nil {
			return true
		}
		switch calleeName(u.TypesInfo, call) {
		case "errors.Is", "errors.As", "errors.AsType":
			return true
		}
		return selects.MatchString(funcName(call))
	})
}

var selects = regexp.MustCompile(`(?i)^is|retryable|permanent|notfound|conflict`)

// clients are clients that retry by themselves, by the path of their package.
var clients = []struct {
	path  *regexp.Regexp
	types *regexp.Regexp
	says  string
}{
	{regexp.MustCompile(`^github\.com/aws/aws-sdk-go-v2/service/\w+$`), regexp.MustCompile(`^Client$`), "the AWS SDK retries by itself"},
	{regexp.MustCompile(`^github\.com/aws/aws-sdk-go/service/\w+$`), regexp.MustCompile(`.`), "the AWS SDK retries by itself"},
	{regexp.MustCompile(`^github\.com/(redis/go-redis/v9|go-redis/redis(/v\d+)?)$`), regexp.MustCompile(`(Client|cmdable)$`), "go-redis retries by itself"},
	{regexp.MustCompile(`^` + regexp.QuoteMeta(retryablehttp) + `$`), regexp.MustCompile(`^Client$`), "go-retryablehttp retries by itself"},
	{regexp.MustCompile(`^cloud\.google\.com/go/storage$`), regexp.MustCompile(`Handle$`), "the storage client retries by itself"},
}

// retriesItself returns why a call in an attempt is retried already, or "".
func (u *unit) retriesItself(a *attempt, call *ast.CallExpr) string {
	if lib := u.doer(call); lib != nil {
		if lib == a.lib && lib.ends {
			return ""
		}
		return lib.name + " retries by itself"
	}
	f := callee(u.TypesInfo, call)
	if f == nil || f.Pkg() == nil || !takesContextOrInput(f) {
		return ""
	}
	path := unvendored(f.Pkg().Path())
	for _, c := range clients {
		if recv := receiver(f); c.path.MatchString(path) && recv != "" && c.types.MatchString(recv) && returnsErrorOrCmd(f) {
			return c.says
		}
	}
	return ""
}

// takesContextOrInput reports whether a method is one that talks to a server.
func takesContextOrInput(f *types.Func) bool { return f.Signature().Params().Len() > 0 }

func returnsErrorOrCmd(f *types.Func) bool {
	results := f.Signature().Results()
	if results.Len() == 0 {
		return false
	}
	last := results.At(results.Len() - 1).Type()
	return isError(last) || types.NewMethodSet(last).Lookup(nil, "Err") != nil
}

package checks

import "go/ast"

// DeferLoop reports a defer that piles up while a loop retries.
var DeferLoop = newCheck("deferloop", `report a defer in a loop that retries

What is deferred in a loop runs when the function returns. Each failed attempt leaves its
response, its transaction or its timer open until the last attempt is over. A defer that only
an attempt that ends the loop gets to is in order, and not reported.`, func(u *unit) {
	for _, a := range u.attempts {
		if a.loop == nil {
			continue
		}
		g := u.graph(a.in)
		own(a.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				return false
			case *ast.DeferStmt:
				at, ok := g.find(n)
				if ok && g.walk(at, a.loop, scene{}, nil)&goesOn != 0 {
					u.report(n, "deferred in a loop that retries: what failed attempts leave open piles up until the function returns")
				}
			}
			return true
		})
	}
})

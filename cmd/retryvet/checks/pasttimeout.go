package checks

import (
	"fmt"
	"go/ast"
	"go/constant"
	"time"
)

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

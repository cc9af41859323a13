package retrygrpc

import (
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/seed-5ff3c98e/retry"
)

// maxTargets bounds what an Interceptor remembers.
const maxTargets = 512

// targets have a budget each. A budget is kept under the name that the program has for the
// target and under the clean one. When there are too many names, all are forgotten: a budget
// that begins anew has its reserve and no credit.
type targets struct {
	mu      sync.RWMutex
	budgets map[string]*retry.Budget
}

// budget returns the budget of the target of cc, which may be nil. A new one has this Reserve.
func (t *targets) budget(cc *grpc.ClientConn, reserve int) *retry.Budget {
	target := targetOf(cc)
	t.mu.RLock()
	b := t.budgets[target]
	t.mu.RUnlock()
	if b != nil {
		return b
	}
	key := ""
	if cc != nil {
		key = clean(cc.CanonicalTarget())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b = t.budgets[key]; b == nil {
		b = &retry.Budget{Reserve: reserve}
	}
	if t.budgets == nil || len(t.budgets) >= maxTargets {
		t.budgets = make(map[string]*retry.Budget)
	}
	t.budgets[target], t.budgets[key] = b, b
	return b
}

// clean returns the form that all spellings of a target share. The names of hosts are in
// lower case, without the default port and a dot at the end.
//
// https://github.com/grpc/grpc/blob/master/doc/naming.md
func clean(canonical string) string {
	host := strings.TrimPrefix(strings.TrimPrefix(canonical, "dns:///"), "passthrough:///")
	if host == canonical {
		return canonical
	}
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	name, port, found := strings.Cut(host, ":")
	if !found || strings.Contains(port, ":") { // none, or an IPv6 address
		return strings.TrimRight(host, ".")
	}
	return strings.TrimRight(name, ".") + ":" + port
}

// targetOf returns the target as the program has named it.
func targetOf(cc *grpc.ClientConn) string {
	if cc == nil {
		return ""
	}
	return cc.Target()
}

// target is where a call goes.
type target struct {
	cc     *grpc.ClientConn // nil in some tests of users
	method string
	shared bool // the retries of grpc itself are not known to be off
}

// retriedByGRPC reports whether grpc retries the call itself. It may be known only after
// the first call, which waits for the service config.
func (t target) retriedByGRPC() bool {
	return t.shared && t.cc != nil && t.cc.GetMethodConfig(t.method).RetryPolicy != nil
}

// waitsForReady reports whether the call waits until there is a connection. Its options
// come before the service config.
func (t target) waitsForReady(opts []grpc.CallOption) (waits bool) {
	if t.cc != nil {
		if configured := t.cc.GetMethodConfig(t.method).WaitForReady; configured != nil {
			waits = *configured
		}
	}
	for _, o := range opts {
		if o, ok := o.(grpc.FailFastCallOption); ok {
			waits = !o.FailFast
		}
	}
	return waits
}

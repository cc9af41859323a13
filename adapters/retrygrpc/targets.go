package retrygrpc

import (
	"sync"

	"google.golang.org/grpc"

	"github.com/seed-5ff3c98e/retry"
)

// maxTargets bounds what an Interceptor remembers.
const maxTargets = 512

// targets have a budget each. When there are too many, all are forgotten: a budget that
// begins anew has its reserve and no credit.
type targets struct {
	mu      sync.RWMutex
	budgets map[string]*retry.Budget
}

func (t *targets) budget(target string) *retry.Budget {
	t.mu.RLock()
	b := t.budgets[target]
	t.mu.RUnlock()
	if b != nil {
		return b
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.budgets[target]; b != nil {
		return b
	}
	if t.budgets == nil || len(t.budgets) >= maxTargets {
		t.budgets = make(map[string]*retry.Budget)
	}
	b = &retry.Budget{}
	t.budgets[target] = b
	return b
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

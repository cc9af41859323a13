package retryhttp

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// maxHosts bounds the memory of a Transport: a crawler meets hosts without end.
const maxHosts = 512

// hosts has the hosts that a Transport used lately, in two generations: when the
// young generation is full, it replaces the old one.
type hosts struct {
	last atomic.Pointer[host] // most clients talk to one only

	mu         sync.Mutex
	young, old map[origin]*host
}

type origin struct{ scheme, host string }

// host is what a Transport knows about one host.
type host struct {
	origin origin
	budget retry.Budget

	mu    sync.Mutex
	until time.Time // it wants no request before this
}

// of returns the host of a request. reserve is the Reserve of the budget of a
// new host.
func (h *hosts) of(req *http.Request, reserve int) *host {
	var key origin
	if req.URL != nil {
		key = origin{req.URL.Scheme, req.URL.Host}
	}
	known := h.last.Load()
	if known == nil || known.origin != key {
		known = h.find(key, reserve)
		h.last.Store(known)
	}
	return known
}

func (h *hosts) find(key origin, reserve int) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.young[key]; known != nil {
		return known
	}
	known := h.old[key]
	if known == nil {
		known = &host{origin: key, budget: retry.Budget{Reserve: reserve}}
	}
	if h.young == nil || len(h.young) >= maxHosts {
		h.young, h.old = make(map[origin]*host), h.young
	}
	h.young[key] = known
	return known
}

// coolDown holds back requests until then, if nothing holds them back for longer.
func (h *host) coolDown(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.until) {
		h.until = until
	}
}

// cooling returns how long requests are held back.
func (h *host) cooling(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.until.Sub(now), 0)
}

package retryhttp

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// maxHosts bounds the memory of a Transport: a crawler meets hosts without end.
const maxHosts = 512

// hosts has the hosts that a Transport used lately, in two generations: when the
// young generation is full, it replaces the old one.
type hosts struct {
	moved  atomic.Bool // at least one host has something instead of Base
	warned atomic.Bool // the log says that a budget has refused a retry

	last atomic.Pointer[host] // most clients talk to one only

	mu         sync.Mutex
	young, old map[origin]*host
}

// origin is a server: the scheme, and the host and the port as a URL has them.
type origin struct{ scheme, host string }

// maxName bounds the memory of an origin, because a redirect can name any. It is more than
// the DNS allows. Longer names that begin alike share what is known about them.
const maxName = 512

// clean returns the form that all spellings of an origin share: in lower case, without the
// default port and the dot at the end of a name, and with the short form of an IPv6 address.
// A name in Unicode and its xn-- form stay different: net/http does not export what it
// translates them with.
func (o origin) clean() origin {
	o.scheme = strings.ToLower(o.scheme[:min(len(o.scheme), maxName)])
	u := url.URL{Host: o.host[:min(len(o.host), maxName)]}
	port := strings.TrimLeft(u.Port(), "0")
	o.host = u.Hostname()
	if !strings.Contains(o.host, ":") {
		o.host = strings.ToLower(strings.TrimRight(o.host, "."))
	} else if ip, err := netip.ParseAddr(o.host); err == nil {
		o.host = ip.Unmap().String() // a zone keeps its case
	}
	if strings.Contains(o.host, ":") {
		o.host = "[" + o.host + "]"
	}
	if port != "" && (o.scheme != "http" || port != "80") && (o.scheme != "https" || port != "443") {
		o.host += ":" + port
	}
	return o
}

// String returns the form "https://example.com", escaped.
func (o origin) String() string { return show.Text(o.scheme) + "://" + show.Text(o.host) }

// clone returns an origin that keeps nothing else alive: the host of a URL is a part of its
// text, which may be a megabyte.
func (o origin) clone() origin { return origin{strings.Clone(o.scheme), strings.Clone(o.host)} }

// host is what a Transport knows about one host.
type host struct {
	origin origin
	budget retry.Budget

	answers  atomic.Uint64                  // that began while an attempt was watched
	instead  atomic.Pointer[http.Transport] // of Base, since a connection fell silent; or nil
	previous atomic.Pointer[http.Transport] // what was instead of Base before; or nil

	quota retryquota.Quota      // of a Transport with a Cooldown
	paced atomic.Pointer[paced] // the last policy that got the quota
}

// paced is a policy with the Quota of a host.
type paced struct {
	from *retry.Policy
	retry.Policy
}

// of returns the host of a request. reserve is the Reserve of the budget of a new host, and
// cooldown the MaxHold of its quota.
func (h *hosts) of(req *http.Request, reserve int, cooldown time.Duration) *host {
	var asked origin
	if req.URL != nil {
		asked = origin{req.URL.Scheme, req.URL.Host}
	}
	known := h.last.Load()
	if known == nil || known.origin != asked {
		known = h.find(asked, reserve, cooldown)
		h.last.Store(known)
	}
	return known
}

// closeIdle closes the idle connections of the transports that hosts have had instead of Base.
func (h *hosts) closeIdle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, generation := range []map[origin]*host{h.young, h.old} {
		for _, known := range generation {
			for _, own := range []*http.Transport{known.instead.Load(), known.previous.Load()} {
				if own != nil {
					own.CloseIdleConnections()
				}
			}
		}
	}
}

func (h *hosts) find(asked origin, reserve int, cooldown time.Duration) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.young[asked]; known != nil { // most URLs are clean
		return known
	}
	key := asked.clean()
	if known := h.young[key]; known != nil {
		return known
	}
	known := h.old[key]
	if known == nil {
		known = &host{origin: key.clone()}
		known.budget.Reserve, known.quota.MaxHold = reserve, cooldown
	}
	if h.young == nil || len(h.young) >= maxHosts {
		h.young, h.old = make(map[origin]*host), h.young
	}
	h.young[known.origin] = known
	return known
}

// pace returns p with the quota of the host. All calls have the same copy, because a Policy
// is large.
func (h *host) pace(p *retry.Policy) *retry.Policy {
	last := h.paced.Load()
	if last == nil || last.from != p {
		last = &paced{p, *calls.Policy(p, defaultPolicy)}
		last.Quota = &h.quota
		h.paced.Store(last)
	}
	return &last.Policy
}

package retryprometheus

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxNames = 100
	longest  = 256 // bytes of a name: what a server sends may be of any length
	other    = "other"
)

// names has something for each value of a label, up to a number of values; the rest
// shares what "other" has. A name that is known costs no lock and no allocation.
type names[T any] struct {
	most     int
	newValue func(name string) T

	mu    sync.Mutex
	known atomic.Pointer[map[string]T] // never changed in place
}

func newNames[T any](most int, newValue func(name string) T) *names[T] {
	if most <= 0 {
		most = maxNames
	}
	n := &names[T]{most: most, newValue: newValue}
	n.known.Store(&map[string]T{})
	return n
}

// of returns what there is for a name.
func (n *names[T]) of(name string) T {
	if len(name) > longest {
		name = other
	}
	if v, ok := n.find(name); ok {
		return v
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// Labels are UTF-8, and what a server sends need not be.
	name = strings.Clone(strings.ToValidUTF8(name, "\ufffd"))
	if v, ok := n.find(name); ok {
		return v
	}
	known := maps.Clone(*n.known.Load())
	if len(known) >= n.most {
		name = other
	}
	v := n.newValue(name)
	known[name] = v
	n.known.Store(&known)
	return v
}

func (n *names[T]) find(name string) (v T, ok bool) {
	known := *n.known.Load()
	if v, ok = known[name]; !ok && len(known) >= n.most {
		v, ok = known[other]
	}
	return v, ok
}

// all returns what there is.
func (n *names[T]) all() map[string]T { return *n.known.Load() }

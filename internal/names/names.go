// Package names bounds how many names the adapters to telemetry tell apart. What a server sends
// may be a name, so there may be any number of them, of any length.
package names

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxNames = 100
	longest  = 256 // bytes of a name
)

// Names has something for each name, up to a number of names; the rest shares what one name
// has. A name that is known costs no lock and no allocation.
type Names[T any] struct {
	most     int
	other    string
	newValue func(name string) T

	mu    sync.Mutex
	known atomic.Pointer[map[string]T] // never changed in place
}

// New returns Names of that many; 0 or less means 100. The rest is called other.
func New[T any](most int, other string, newValue func(name string) T) *Names[T] {
	if most <= 0 {
		most = maxNames
	}
	n := &Names[T]{most: most, other: other, newValue: newValue}
	n.known.Store(&map[string]T{})
	return n
}

// Of returns what there is for a name.
func (n *Names[T]) Of(name string) T {
	if name = Valid(name); len(name) > longest {
		name = n.other
	}
	if v, ok := n.find(name); ok {
		return v
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name = strings.Clone(name)
	if v, ok := n.find(name); ok {
		return v
	}
	known := maps.Clone(*n.known.Load())
	if len(known) >= n.most {
		name = n.other
	}
	v := n.newValue(name)
	known[name] = v
	n.known.Store(&known)
	return v
}

func (n *Names[T]) find(name string) (v T, ok bool) {
	known := *n.known.Load()
	if v, ok = known[name]; !ok && len(known) >= n.most {
		v, ok = known[n.other]
	}
	return v, ok
}

// All returns what there is.
func (n *Names[T]) All() map[string]T { return *n.known.Load() }

// Valid returns a text in UTF-8, which telemetry needs: exporters drop whole batches for one that
// is not.
func Valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

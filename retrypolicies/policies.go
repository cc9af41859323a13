package retrypolicies

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Default is the name of the policy that the others inherit from.
const Default = "default"

// ErrUnknown is wrapped by the errors of [Policies.Get].
var ErrUnknown = errors.New("retrypolicies: unknown policy")

// Policies are policies with names. The zero value has no policies until a file is
// loaded. Set Parts before that.
//
// Policies are safe for concurrent use, must not be copied, and may be loaded again
// at any time: calls in progress go on with the policy that they began with.
type Policies struct {
	// Parts are attached to the policies with these names. The Parts of [Default]
	// are attached to all policies; a field of the policy's own Parts replaces the
	// field of the default. A file without one of these names is invalid, because the
	// program needs that policy. Parts must not be changed after the first load.
	Parts map[string]Parts

	current atomic.Pointer[table]
}

// Parts are the fields of a [retry.Policy] that a file cannot have. A nil field is
// taken from the Parts of [Default].
type Parts struct {
	Classifier retry.Classifier
	Budget     retry.Throttle
	Quota      retry.Pacer
	Observer   *retry.Observer
	Clock      retry.Clock
	Rand       rand.Source
}

// table has the policies of one file. It is never changed.
type table map[string]*retry.Policy

// Get returns the policy with a name, as the file that was loaded last defines it.
// The policy is shared, and must not be changed. To see a reload, call Get again for
// every call.
//
// If the file does not have the name, the error wraps [ErrUnknown] and lists the names
// of the file, or the first twenty.
func (ps *Policies) Get(name string) (*retry.Policy, error) {
	t := ps.table()
	if p, ok := t[name]; ok {
		return p, nil
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("%w %s: no file was loaded", ErrUnknown, show.Quote(name))
	}
	return nil, fmt.Errorf("%w %s: must be one of %s", ErrUnknown, show.Quote(name), quoted(t.names()))
}

// Names returns the names of all policies in their order, [Default] among them. It
// is empty before a file was loaded.
func (ps *Policies) Names() []string { return ps.table().names() }

func (ps *Policies) table() table {
	if t := ps.current.Load(); t != nil {
		return *t
	}
	return nil
}

func (t table) names() []string { return slices.Sorted(maps.Keys(t)) }

// quoted returns names for an error text, or the first of them.
func quoted(names []string) string {
	const most = 20
	list := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		list = append(list, show.Quote(name))
	}
	if more := len(names) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

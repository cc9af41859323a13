package retrypolicies

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// The keys of a file.
const (
	defaultKey  = Default
	policiesKey = "policies"
)

// builder makes the policies of one document, and notes what is wrong with it.
type builder struct {
	parts  map[string]Parts
	faults *faults
}

// table returns the policies of a document.
func (b builder) table(root *node) table {
	if root.members == nil {
		b.faults.add(root, nil, strictjson.Show(root.plain())+": must be an object with the keys default and policies")
		return nil
	}
	for _, key := range root.keys() {
		if key != defaultKey && key != policiesKey {
			b.faults.add(root.members[key], []string{key}, strictjson.Join("", key)+": unknown key; must be default or policies")
		}
	}
	base := root.members[defaultKey]
	if base == nil {
		base = &node{members: map[string]*node{}}
	}
	t, sound := table{}, len(b.faults.list)
	t[Default] = b.policy(Default, []string{defaultKey}, base)
	if len(b.faults.list) > sound {
		base = &node{} // so that its faults are not those of every other policy too
	}
	policies := root.members[policiesKey]
	switch {
	case policies == nil:
	case policies.members == nil:
		b.faults.add(policies, []string{policiesKey}, "policies: "+strictjson.Show(policies.plain())+": must be an object of policies by name")
		return t
	default:
		b.named(t, policies, base)
	}
	for _, name := range slices.Sorted(maps.Keys(b.parts)) {
		if t[name] == nil {
			b.faults.add(nil, []string{policiesKey, name}, fmt.Sprintf("policies: %q is missing; the program has parts for it", name))
		}
	}
	return t
}

// named adds the policies that inherit from base.
func (b builder) named(t table, policies, base *node) {
	for _, name := range policies.keys() {
		n, path := policies.members[name], []string{policiesKey, name}
		switch name {
		case "":
			b.faults.add(n, path, `policies: "": must not be the name of a policy`)
		case Default:
			b.faults.add(n, path, "policies.default: must stand beside policies, not among them")
		default:
			t[name] = b.policy(name, path, n.inherit(base))
		}
	}
}

// policy returns the policy of a node with its parts. path is where it stands.
func (b builder) policy(name string, path []string, n *node) *retry.Policy {
	p := &retry.Policy{}
	prefix := ""
	for _, key := range path {
		prefix = strictjson.Join(prefix, key)
	}
	if n.members == nil {
		b.faults.add(n, path, prefix+": "+strictjson.Show(n.plain())+": must be an object")
		return p
	}
	err := p.UnmarshalYAML(func(v any) error { // the hook takes what is decoded already
		*v.(*any) = n.plain()
		return nil
	})
	if err == nil {
		if p.Name == "" {
			p.Name = name
		}
		b.parts[Default].attach(p)
		b.parts[name].attach(p)
		err = p.Validate() // with the parts
	}
	for _, fault := range each(err) {
		at, where := n.find(fault.Error(), path)
		b.faults.add(at, where, prefix+"."+fault.Error())
	}
	return p
}

// attach sets the fields of p for which there is a part.
func (parts Parts) attach(p *retry.Policy) {
	if parts.Classifier != nil {
		p.Classifier = parts.Classifier
	}
	if parts.Budget != nil {
		p.Budget = parts.Budget
	}
	if parts.Observer != nil {
		p.Observer = parts.Observer
	}
	if parts.Clock != nil {
		p.Clock = parts.Clock
	}
	if parts.Rand != nil {
		p.Rand = parts.Rand
	}
}

// inherit returns the policy n with what it does not set of base.
func (n *node) inherit(base *node) *node {
	if n.members == nil {
		return n
	}
	merged := *n
	merged.members = maps.Clone(n.members)
	for key, member := range base.members {
		own := n.members[key]
		switch {
		case key == "name": // each has its own
		case key == "max_attempts" && n.members["max_retries"] != nil:
		case key == "max_retries" && n.members["max_attempts"] != nil:
		case own == nil:
			merged.members[key] = member.at(n)
		case key == "overrides" && own.members != nil && member.members != nil:
			merged.members[key] = own.inheritKinds(member)
		}
	}
	return &merged
}

// inheritKinds returns the overrides n with those of base for other kinds.
func (n *node) inheritKinds(base *node) *node {
	merged := *n
	merged.members = maps.Clone(n.members)
	for kind, override := range base.members {
		if n.members[kind] == nil {
			merged.members[kind] = override.at(n)
		}
	}
	return &merged
}

// at returns n as a value that stands where heir does, which inherits it: if the two
// contradict each other, that is where to set something else.
func (n *node) at(heir *node) *node {
	return &node{value: n.plain(), line: heir.line, column: heir.column}
}

// each returns the faults that an error of a policy joins.
func each(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		return joined.Unwrap()
	default:
		return []error{err}
	}
}

// find follows a path as [retry.Policy.Validate] writes it before its problem,
// "backoff.schedule[2]: -1s: …", as far as it leads from n, which stands at path. It
// returns where it has led.
func (n *node) find(text string, path []string) (*node, []string) {
	for i, item := range n.items {
		if rest, ok := strings.CutPrefix(text, fmt.Sprintf("[%d]", i)); ok {
			return item.find(rest, with(path, strconv.Itoa(i)))
		}
	}
	text = strings.TrimPrefix(text, ".")
	next, left := "", text
	for key := range n.members {
		// A key may have a dot in it, and so begin like another one: the longest is
		// meant.
		rest, ok := strings.CutPrefix(text, strictjson.Join("", key))
		if ok && len(rest) < len(left) && rest != "" && strings.Contains(".[:", rest[:1]) {
			next, left = key, rest
		}
	}
	if len(left) == len(text) {
		return n, path
	}
	return n.members[next].find(left, with(path, next))
}

// with returns path with one more key.
func with(path []string, key string) []string { return append(slices.Clip(path), key) }

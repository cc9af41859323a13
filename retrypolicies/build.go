package retrypolicies

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// The keys of a file.
const (
	defaultKey  = Default
	policiesKey = "policies"
)

// mostInherited is how many values all policies of a file may inherit together. Without a
// bound, a short file with many policies and a long default takes much time and memory.
const mostInherited = 1_000_000

// object is one level of a document.
type object = strictjson.Object

// builder makes the policies of one document, and notes what is wrong with it.
type builder struct {
	parts  map[string]Parts
	faults *faults
}

// table returns the policies of a document.
func (b builder) table(root any) table {
	document, ok := root.(object)
	if !ok {
		b.faults.add(nil, strictjson.Show(root)+": must be an object with the keys default and policies")
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(document)) {
		if b.faults.more {
			return nil
		}
		if key != defaultKey && key != policiesKey {
			b.faults.add([]string{key}, strictjson.At(key).String()+": unknown key; must be default or policies")
		}
	}
	base, ok := document[defaultKey]
	if !ok {
		base = object{}
	}
	t, sound := table{}, len(b.faults.list)
	t[Default] = b.policy(Default, []string{defaultKey}, base, nil)
	if len(b.faults.list) > sound {
		base = nil // otherwise every other policy would have the same faults
	}
	inherited, _ := base.(object)
	if policies, ok := document[policiesKey]; ok && !b.named(t, policies, inherited) {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(b.parts)) {
		if t[name] == nil {
			b.faults.add([]string{policiesKey, name}, fmt.Sprintf("policies: %q is missing; the program has parts for it", name))
		}
	}
	return t
}

// named adds the policies that inherit from base. It returns false if it cannot add them.
func (b builder) named(t table, v any, base object) bool {
	policies, ok := v.(object)
	inherited := int64(len(policies)) * int64(size(base))
	switch path := []string{policiesKey}; {
	case !ok:
		b.faults.add(path, "policies: "+strictjson.Show(v)+": must be an object of policies by name")
		return false
	case inherited > mostInherited:
		b.faults.add(path, fmt.Sprintf("policies: %d values are inherited from the default: must be at most %d in all policies",
			inherited, mostInherited))
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		path := []string{policiesKey, name}
		switch {
		case b.faults.more:
			return false
		case name == "":
			b.faults.add(path, `policies: "": must not be the name of a policy`)
		case name == Default:
			b.faults.add(path, "policies.default: must stand beside policies, not among them")
		default:
			t[name] = b.policy(name, path, policies[name], base)
		}
	}
	return true
}

// size returns the number of values in a value.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case object:
		for _, member := range v {
			n += size(member)
		}
	case []any:
		for _, item := range v {
			n += size(item)
		}
	}
	return n
}

// policy returns the policy that own defines together with base, with its parts. path is
// the path of own.
func (b builder) policy(name string, path []string, own any, base object) *retry.Policy {
	p := &retry.Policy{}
	var at *strictjson.Path
	for _, key := range path {
		at = at.Key(key)
	}
	prefix := at.String()
	o, ok := own.(object)
	if !ok {
		b.faults.add(path, prefix+": "+strictjson.Show(own)+": must be an object")
		return p
	}
	err := p.UnmarshalYAML(func(v any) error { // the hook takes what is decoded already
		*v.(*any) = inherit(o, base)
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
	if err == nil {
		return p
	}
	for _, fault := range each(err) {
		b.faults.add(slices.Concat(path, strictjson.Follow(own, strictjson.PathOf(fault))), prefix+"."+fault.Error())
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
	if parts.Quota != nil {
		p.Quota = parts.Quota
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

// inherit returns the policy own with the settings of base that own does not have.
func inherit(own, base object) object {
	merged := maps.Clone(own)
	for key, member := range base {
		v, set := own[key]
		kinds, _ := v.(object)
		baseKinds, _ := member.(object)
		switch {
		case key == "name": // each has its own
		case key == "max_attempts" && has(own, "max_retries"):
		case key == "max_retries" && has(own, "max_attempts"):
		case !set:
			merged[key] = member
		case key == "overrides" && kinds != nil && baseKinds != nil:
			all := maps.Clone(baseKinds)
			maps.Copy(all, kinds)
			merged[key] = all
		}
	}
	return merged
}

func has(o object, key string) bool {
	_, ok := o[key]
	return ok
}

// each returns the faults that an error of a policy joins.
func each(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

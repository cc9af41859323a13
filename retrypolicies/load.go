package retrypolicies

import (
	"fmt"
	"os"
)

// LoadFile is [Policies.Load] with the content of a file.
func (ps *Policies) LoadFile(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("retrypolicies: %w", err)
	}
	return ps.Load(name, data)
}

// Load reads the JSON form of policies and exchanges the current ones by them, all
// at once. If anything is wrong, it returns an [*InvalidError] with every fault, and
// the policies stay what they were. name is the file's, for errors.
//
// The file has an object, "default", and an object of such objects, "policies",
// which have the form of [retry.Policy.MarshalJSON]. Either may be left out. A
// policy inherits every key that it does not have; the overrides are inherited kind
// by kind, and the name is not: it is the key of the policy unless it has one.
func (ps *Policies) Load(name string, data []byte) error {
	fs := faults{file: name}
	if root := decodeJSON(data, &fs); root != nil {
		return ps.exchange(root, &fs)
	}
	return fs.err()
}

// UnmarshalJSON is [Policies.Load] for policies that are part of a larger document.
// Because it sees nothing of the rest, its faults have a path and no line. null
// changes nothing.
func (ps *Policies) UnmarshalJSON(data []byte) error {
	var fs faults
	root := decodeJSON(data, &fs)
	if root == nil {
		return fs.err()
	}
	if root.plain() == nil {
		return nil // by convention
	}
	root.forget()
	return ps.exchange(root, &fs)
}

// UnmarshalYAML is [Policies.Load] for YAML, from any library that honors the method.
// Its faults have a path, from which the library can tell the line.
func (ps *Policies) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	return ps.exchange(nodeOf(v), new(faults))
}

// forget drops the positions.
func (n *node) forget() {
	n.line, n.column = 0, 0
	for _, member := range n.members {
		member.forget()
	}
	for _, item := range n.items {
		item.forget()
	}
}

// exchange makes the policies of a document the current ones if it has no faults.
func (ps *Policies) exchange(root *node, fs *faults) error {
	t := builder{ps.Parts, fs}.table(root)
	if err := fs.err(); err != nil {
		return err
	}
	ps.current.Store(&t)
	return nil
}

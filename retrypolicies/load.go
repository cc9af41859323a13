package retrypolicies

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// LoadFile is [Policies.Load] with the content of a JSON file. YAML needs a library, which
// calls [Policies.UnmarshalYAML]: yaml.Unmarshal(data, &policies).
func (ps *Policies) LoadFile(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("retrypolicies: %w", err)
	}
	return ps.Load(name, data)
}

// Load reads the JSON form of policies and replaces the current policies by them, all
// at once. If there are faults, it returns an [*InvalidError] with every fault, and the
// current policies stay. name is the name of the file, for errors.
//
// The file has an object "default", which is a policy, and an object "policies", which has
// policies by name. Policies have the form of [retry.Policy.MarshalJSON]. Either object
// may be left out. A policy inherits every key that it does not have. The overrides are
// inherited kind by kind. The name is not inherited: a policy without a name gets its key
// as the name. The file may have a million values, and all policies together may inherit
// a million.
func (ps *Policies) Load(name string, data []byte) error {
	return ps.load(data, &faults{file: name, data: data})
}

// UnmarshalJSON is [Policies.Load] for policies that are part of a larger document.
// It does not see the rest, so its faults have a path and no line. null changes
// nothing.
func (ps *Policies) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil // by convention
	}
	return ps.load(data, &faults{})
}

// UnmarshalYAML is [Policies.Load] for YAML, from any library that honors the method.
// Its faults have a path, from which the library can tell the line. The limits are those
// of [retry.Policy.UnmarshalYAML].
func (ps *Policies) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	fs := &faults{}
	v, err := strictjson.Plain(v)
	if err != nil {
		return fs.unreadable(&strictjson.Error{Err: err})
	}
	return ps.exchange(v, fs)
}

// load makes the policies of a JSON document the current ones.
func (ps *Policies) load(data []byte, fs *faults) error {
	var repeated strictjson.Faults
	root, err := strictjson.Decode(data, &repeated)
	if broken := (*strictjson.Error)(nil); errors.As(err, &broken) {
		return fs.unreadable(broken)
	}
	for _, fault := range repeated {
		fs.add(strictjson.PathOf(fault), fault.Error())
	}
	return ps.exchange(root, fs)
}

// exchange makes the policies of a document the current ones if it has no faults.
func (ps *Policies) exchange(root any, fs *faults) error {
	t := builder{ps.Parts, fs}.table(root)
	if err := fs.err(); err != nil {
		return err
	}
	ps.current.Store(&t)
	return nil
}

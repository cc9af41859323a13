package retrypolicies

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/seed-5ff3c98e/retry/internal/strictjson"
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
// by kind, and the name is not: it is the key of the policy unless it has one. The file
// may have a million values, and so many may be inherited in all.
func (ps *Policies) Load(name string, data []byte) error {
	return ps.load(data, &faults{file: name, data: data})
}

// UnmarshalJSON is [Policies.Load] for policies that are part of a larger document.
// Because it sees nothing of the rest, its faults have a path and no line. null
// changes nothing.
func (ps *Policies) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil // by convention
	}
	return ps.load(data, &faults{})
}

// UnmarshalYAML is [Policies.Load] for YAML, from any library that honors the method.
// Its faults have a path, from which the library can tell the line.
func (ps *Policies) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	return ps.exchange(plain(v), &faults{})
}

// plain returns what a YAML library has decoded as JSON libraries return it.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		o := make(object, len(v))
		for key, member := range v {
			o[key] = plain(member)
		}
		return o
	case map[any]any: // yaml.v2, and keys that are no strings
		o := make(object, len(v))
		for key, member := range v {
			o[fmt.Sprint(key)] = plain(member)
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	default:
		return v
	}
}

// load makes the policies of a JSON document the current ones.
func (ps *Policies) load(data []byte, fs *faults) error {
	var repeated strictjson.Faults
	root, err := strictjson.Decode(data, &repeated)
	if broken := (*strictjson.Error)(nil); errors.As(err, &broken) {
		return fs.unreadable(broken)
	}
	for _, fault := range repeated {
		fs.add(find(root, fault.Error(), nil), fault.Error())
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

package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Decode decodes like [json.Unmarshal] into an any, but notes repeated keys
// and keeps numbers as they are written.
func Decode(data []byte, f *Faults) (any, error) {
	// The document must be complete and not too deep before it is decoded.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return value(d, "", 0, f)
}

func value(d *json.Decoder, path string, depth int, f *Faults) (any, error) {
	const deepest = 20 // far beyond any configuration
	if depth > deepest {
		var rest json.RawMessage
		err := d.Decode(&rest)
		return rest, err
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := Object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			at := Join(path, name)
			v, err := value(d, at, depth+1, f)
			if err != nil {
				return nil, err
			}
			if _, twice := o[name]; twice {
				f.Add(at, Show(v), "repeated key")
			}
			o[name] = v
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1, f)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	default:
		return token, nil
	}
}

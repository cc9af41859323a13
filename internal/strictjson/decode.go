package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
)

const (
	deepest    = 20        // levels; far beyond any configuration
	mostValues = 1_000_000 // in a document; keeps the memory small in proportion to its length
)

// Error says why a text cannot be decoded.
type Error struct {
	Offset int // of the character that is wrong, or the end
	Err    error
}

// Error returns what is wrong, without the offset.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause, such as a [*json.SyntaxError].
func (e *Error) Unwrap() error { return e.Err }

// Decode decodes like [json.Unmarshal] into an any, but notes repeated keys, and keeps
// numbers as they are written. It goes over the text twice, however long its lines are
// and however many faults it has. The error is an [*Error].
func Decode(data []byte, f *Faults) (any, error) {
	// The document must be complete before it is decoded.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		offset := 0
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			offset = max(int(syntax.Offset)-1, 0) // behind the character
		}
		return nil, &Error{offset, err}
	}
	d := decoder{scanner: scanner{data: data}, faults: f}
	v := d.value(nil, 0)
	if d.values > mostValues {
		return nil, &Error{d.at, fmt.Errorf("must not have more than %d values", mostValues)}
	}
	return v, nil
}

// decoder decodes a text that is JSON.
type decoder struct {
	scanner
	faults *Faults
	values int
}

// value decodes the next value. After too many values, its result is of no use.
func (d *decoder) value(path *Path, depth int) any {
	if d.values++; d.values > mostValues {
		return nil
	}
	start := d.next()
	switch c := d.data[start]; {
	case depth > deepest && (c == '{' || c == '['):
		d.skip()
		return json.RawMessage(`"…"`) // no setting; something above it is a fault
	case c == '{':
		return d.object(path, depth)
	case c == '[':
		return d.list(path, depth)
	case c == '"':
		return d.text()
	default:
		d.skip()
		switch word := string(d.data[start:d.at]); word {
		case "null":
			return nil
		case "true", "false":
			return word == "true"
		default:
			return json.Number(word)
		}
	}
}

func (d *decoder) object(path *Path, depth int) Object {
	o := Object{}
	d.at++ // behind the bracket
	for d.member('}') && d.values <= mostValues {
		at := path.Key(d.text())
		v := d.value(at, depth+1)
		if _, twice := o[at.key]; twice && !d.faults.full() {
			d.faults.Add(at, Show(v), "repeated key")
		}
		o[at.key] = v
	}
	return o
}

func (d *decoder) list(path *Path, depth int) []any {
	list := []any{}
	d.at++ // behind the bracket
	for d.member(']') && d.values <= mostValues {
		list = append(list, d.value(path.Index(len(list)), depth+1))
	}
	return list
}

package strictjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Plain returns what a YAML library has decoded in the types that [Decode] returns, and
// with its limits. It changes v.
//
// An alias may stand for a part of the document many times, and a few hundred bytes for more
// values than a memory holds. Libraries that share that part have decoded little, but all
// that walks over it walks over every value. So Plain counts what a walk meets, before there
// is one.
func Plain(v any) (any, error) {
	p := plainer{}
	v = p.value(v, 0)
	return v, p.err
}

type plainer struct {
	values int
	err    error
}

func (p *plainer) value(v any, depth int) any {
	switch p.values++; {
	case p.err != nil:
		return v
	case p.values > mostValues:
		p.err = fmt.Errorf("must not have more than %d values, those behind aliases included", mostValues)
		return v
	case depth > deepest:
		p.err = fmt.Errorf("must not be deeper than %d levels", deepest)
		return v
	}
	switch v := v.(type) {
	case Object:
		for key, member := range v {
			v[key] = p.value(member, depth+1)
		}
	case map[any]any: // yaml.v2, and keys that are not strings
		o := make(Object, len(v))
		for key, member := range v {
			name, ok := key.(string)
			if !ok {
				name = show.Text(fmt.Sprint(key))
			}
			o[name] = p.value(member, depth+1)
		}
		return o
	case []any:
		for i, item := range v {
			v[i] = p.value(item, depth+1)
		}
	}
	return v
}

// shown is how much of a value an error text has, in bytes.
const shown = 60

// Show returns a value for an error text, as JSON if possible, and cut off if it is long.
// It takes no longer for a long value than for a short one.
func Show(v any) string { return show.Cut(string(appendShort(nil, v)), shown) }

// appendShort appends v as JSON, and may stop after the bytes that are shown.
func appendShort(b []byte, v any) []byte {
	const most = 1000 // members that are worth sorting
	switch value := v.(type) {
	case Object:
		if len(value) > most {
			return fmt.Appendf(b, "an object with %d keys", len(value))
		}
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(value)) {
			if len(b) > shown {
				break
			}
			b = appendShort(comma(b, i), key)
			b = appendShort(append(b, ':'), value[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range value {
			if len(b) > shown {
				break
			}
			b = appendShort(comma(b, i), item)
		}
		return append(b, ']')
	case string:
		value = value[:min(len(value), 2*shown)] // may cut a character, behind what is shown
		v = strings.ToValidUTF8(value, "\ufffd") // versions of Go differ in what they write for other bytes
	case json.Number:
		return append(b, value[:min(len(value), 2*shown)]...)
	case nil, bool, int, int64, uint64, time.Time, json.RawMessage:
	case float64:
		return fmt.Append(b, value) // JSON has no NaN
	default: // its text may be of any length
		return fmt.Appendf(b, "a %T", v)
	}
	text, _ := json.Marshal(v)
	return append(b, text...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

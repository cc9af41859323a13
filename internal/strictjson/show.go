package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// shown is how much of a value an error text has, in bytes.
const shown = 60

// Show returns a value for an error text, as JSON if possible, and cut off if it is long.
// It takes no longer for a long value than for a short one.
func Show(v any) string {
	b := appendShort(nil, v)
	if len(b) > shown {
		b = append(bytes.ToValidUTF8(b[:shown], nil), "…"...)
	}
	return string(b)
}

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
		if len(value) > 2*shown {
			v = value[:2*shown] // may cut a character, behind what is shown
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	return append(b, text...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

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

// Package strictjson reads JSON, and documents decoded by YAML libraries, with the
// path of every value. It notes all faults instead of the first one.
package strictjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Object is one level of a document.
type Object = map[string]any

// Reader turns a decoded document into settings, and notes all its faults.
type Reader struct{ *Faults }

// Field reads the value at a path into its setting.
type Field func(path *Path, v any)

// Fields has the fields of an object by their keys.
type Fields map[string]Field

// keys returns the keys for texts.
func (fs Fields) keys() string { return strings.Join(slices.Sorted(maps.Keys(fs)), ", ") }

// Object reads an object with the keys of fs.
func (r Reader) Object(path *Path, v any, fs Fields) {
	for key, v := range r.Entries(path, v) {
		if r.full() {
			return
		}
		at := path.Key(key)
		if f, ok := fs[key]; ok {
			f(at, v)
		} else if like := fs.similar(key); like != "" {
			r.Add(at, Show(v), "unknown key; did you mean "+like+"?")
		} else {
			r.Add(at, Show(v), "unknown key; the keys here are "+fs.keys())
		}
	}
}

// OneOf reads an object with exactly one key, which is one of fs.
func (r Reader) OneOf(or string, fs Fields) Field {
	return func(path *Path, v any) {
		if o, ok := v.(Object); !ok || len(o) != 1 {
			r.Add(path, Show(v), "must be "+or+"an object with one key of "+
				fs.keys())
			return
		}
		r.Object(path, v, fs)
	}
}

// Entries iterates over an object in the order of its keys.
func (r Reader) Entries(path *Path, v any) func(yield func(string, any) bool) {
	o, ok := v.(Object)
	if !ok {
		r.Add(path, Show(v), "must be an object")
	}
	return func(yield func(string, any) bool) {
		keys := make([]string, 0, len(o)) // [slices.Sorted] would let it grow
		for key := range o {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if !yield(key, o[key]) {
				return
			}
		}
	}
}

// Text reads a string.
func (r Reader) Text(s *string) Field {
	return func(path *Path, v any) {
		var ok bool
		if *s, ok = v.(string); !ok {
			r.Add(path, Show(v), "must be a string")
		}
	}
}

// Flag reads a boolean.
func (r Reader) Flag(b *bool) Field {
	return func(path *Path, v any) {
		var ok bool
		if *b, ok = v.(bool); !ok {
			r.Add(path, Show(v), "must be true or false")
		}
	}
}

// Count reads a whole number into n.
func (r Reader) Count(n *int) Field {
	return func(path *Path, v any) { *n, _ = r.Whole(path, v) }
}

// Shortest is the shortest duration of a policy that is not 0.
const Shortest = time.Microsecond

// Duration reads a string like "1m30s" or a number of seconds. The check of the setting
// reports a negative one.
func (r Reader) Duration(d *time.Duration) Field {
	return func(path *Path, v any) {
		read, zero, ok := r.duration(path, v)
		switch {
		case !ok:
		case !zero && read >= 0 && read < Shortest:
			r.Add(path, Show(v), "is less than a microsecond")
		default:
			*d = read
		}
	}
}

// duration reads a duration, which is rounded to nanoseconds. zero says that it was 0
// before.
func (r Reader) duration(path *Path, v any) (d time.Duration, zero, ok bool) {
	if s, ok := v.(string); ok {
		d, err := time.ParseDuration(s)
		if err != nil {
			r.Add(path, Show(v), `must be a duration like "1m30s", or a number of seconds`)
		}
		return d, !strings.ContainsAny(s, "123456789"), err == nil
	}
	seconds, ok := r.Number(path, v)
	if !ok {
		return 0, false, false
	}
	ns := math.Round(seconds * float64(time.Second))
	if !(math.Abs(ns) < 1<<63) { // otherwise the conversion is not safe
		r.Add(path, Show(v), "is too long for a duration")
		return 0, false, false
	}
	return time.Duration(ns), seconds == 0, true
}

// Positive reads a duration for which 0 would mean the default instead of 0.
func (r Reader) Positive(d *time.Duration) Field {
	return func(path *Path, v any) {
		before := len(*r.Faults)
		if r.Duration(d)(path, v); *d == 0 && len(*r.Faults) == before {
			r.Add(path, Show(v), "must be positive; leave it out for the default")
		}
	}
}

// Multiplier reads a number for which 0 would mean the default instead of 0.
func (r Reader) Multiplier(m *float64) Field {
	return func(path *Path, v any) {
		var ok bool
		if *m, ok = r.Number(path, v); ok && *m == 0 {
			r.Add(path, Show(v), "must be at least 1; leave it out for the default")
		}
	}
}

// Whole returns a whole number of any type that a JSON or YAML library uses.
func (r Reader) Whole(path *Path, v any) (int, bool) {
	text := digits(v)
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) <= min(exact, math.MaxInt) {
		return int(f), true
	}
	r.Add(path, Show(v), "must be a whole number")
	return 0, false
}

// Number returns a number that is neither NaN nor infinite, nor -0.
func (r Reader) Number(path *Path, v any) (float64, bool) {
	if f, err := strconv.ParseFloat(digits(v), 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f + 0, true // -0 + 0 is 0
	}
	r.Add(path, Show(v), "must be a number")
	return 0, false
}

// digits returns a number of a type that JSON and YAML libraries use as its digits. It
// returns "" for all other values.
func digits(v any) string {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case float64, int, int64, uint64:
		return fmt.Sprint(v)
	default:
		return ""
	}
}

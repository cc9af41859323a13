package retry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reader turns the decoded JSON or YAML form of a policy into settings, and
// notes everything that is wrong with it.
type reader struct{ *faults }

// field reads the value at a path into the setting that it was made for.
type field func(path string, v any)

type fields map[string]field

// policy returns the fields of the JSON form.
func (r reader) policy(p *Policy) fields {
	return fields{
		"name":             r.text(&p.Name),
		"max_attempts":     r.attempts(&p.MaxAttempts, 0),
		"max_retries":      r.attempts(&p.MaxAttempts, 1),
		"max_elapsed":      r.duration(&p.MaxElapsed),
		"attempt_timeout":  r.duration(&p.AttemptTimeout),
		"timeout":          r.duration(&p.Timeout),
		"reset_after":      r.duration(&p.ResetAfter),
		"backoff":          r.backoff(&p.Backoff),
		"max_delay":        r.positive(&p.MaxDelay),
		"jitter":           r.jitter(&p.Jitter),
		"max_retry_after":  r.positive(&p.MaxRetryAfter),
		"free_rate_limits": r.count(&p.FreeRateLimits),
		"non_idempotent":   r.flag(&p.NonIdempotent),
		"overrides": func(path string, v any) {
			for kind, v := range r.entries(path, v) {
				if p.Overrides == nil {
					p.Overrides = map[string]Override{}
				}
				var o Override
				r.object(overridePath(kind), v, fields{
					"max_attempts": r.attempts(&o.MaxAttempts, 0),
					"max_retries":  r.attempts(&o.MaxAttempts, 1),
					"backoff":      r.backoff(&o.Backoff),
					"max_delay":    r.positive(&o.MaxDelay),
					"jitter":       r.jitter(&o.Jitter),
				})
				p.Overrides[kind] = o
			}
		},
	}
}

func (r reader) backoff(b *Backoff) field {
	return r.oneOf("", fields{
		"exponential": func(path string, v any) {
			var e Exponential
			r.object(path, v, fields{"initial": r.positive(&e.Initial), "multiplier": r.multiplier(&e.Multiplier)})
			*b = e
		},
		"linear": func(path string, v any) {
			var l Linear
			r.object(path, v, fields{"initial": r.positive(&l.Initial), "step": r.positive(&l.Step)})
			*b = l
		},
		"fibonacci": func(path string, v any) {
			var f Fibonacci
			r.object(path, v, fields{"initial": r.positive(&f.Initial)})
			*b = f
		},
		"constant": func(path string, v any) {
			var d time.Duration
			r.duration(&d)(path, v)
			*b = Constant(d)
		},
		"schedule": func(path string, v any) {
			list, ok := v.([]any)
			if !ok {
				r.add(path, show(v), "must be a list of durations")
				return
			}
			s := make(Schedule, len(list))
			for i, v := range list {
				r.duration(&s[i])(fmt.Sprintf("%s[%d]", path, i), v)
			}
			*b = s
		},
	})
}

func (r reader) jitter(j *Jitter) field {
	other := r.oneOf(`"full", "equal", "none", or `, fields{
		"proportional": func(path string, v any) {
			if fraction, ok := r.number(path, v); ok {
				*j = proportional(fraction)
			}
		},
		"plus_minus": func(path string, v any) {
			var d time.Duration
			r.duration(&d)(path, v)
			*j = plusMinus(d)
		},
	})
	return func(path string, v any) {
		name, _ := v.(string)
		for mode, n := range jitterNames {
			if n == name {
				*j = jitterMode(mode)
				return
			}
		}
		other(path, v)
	}
}

// object reads an object whose keys are those of fs.
func (r reader) object(path string, v any, fs fields) {
	for key, v := range r.entries(path, v) {
		at := join(path, key)
		if f, ok := fs[key]; ok {
			f(at, v)
		} else {
			r.add(at, show(v), "unknown key")
		}
	}
}

// oneOf reads an object with exactly one key, which is one of fs.
func (r reader) oneOf(or string, fs fields) field {
	return func(path string, v any) {
		if o, ok := asObject(v); !ok || len(o) != 1 {
			r.add(path, show(v), "must be "+or+"an object with one key of "+
				strings.Join(slices.Sorted(maps.Keys(fs)), ", "))
			return
		}
		r.object(path, v, fs)
	}
}

// entries iterates over an object in the order of its keys.
func (r reader) entries(path string, v any) func(yield func(string, any) bool) {
	o, ok := asObject(v)
	if !ok {
		r.add(cmp.Or(path, "policy"), show(v), "must be an object")
	}
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if !yield(key, o[key]) {
				return
			}
		}
	}
}

func (r reader) text(s *string) field {
	return func(path string, v any) {
		var ok bool
		if *s, ok = v.(string); !ok {
			r.add(path, show(v), "must be a string")
		}
	}
}

func (r reader) flag(b *bool) field {
	return func(path string, v any) {
		var ok bool
		if *b, ok = v.(bool); !ok {
			r.add(path, show(v), "must be true or false")
		}
	}
}

// attempts reads a number of attempts, which is extra more than the one given.
func (r reader) attempts(n *int, extra int) field {
	return func(path string, v any) {
		if *n != 0 {
			r.add(path, show(v), "max_attempts and max_retries exclude each other")
			return
		}
		if v == unlimitedText {
			*n = Unlimited
			return
		}
		count, ok := r.whole(path, v)
		switch {
		case !ok:
		case count < 1-extra:
			r.add(path, count, fmt.Sprintf("must be at least %d; leave it out for the default", 1-extra))
		case count > Unlimited-extra:
			*n = Unlimited
		default:
			*n = count + extra
		}
	}
}

func (r reader) count(n *int) field {
	return func(path string, v any) { *n, _ = r.whole(path, v) }
}

// duration reads a string like "1m30s" or a number of seconds.
func (r reader) duration(d *time.Duration) field {
	return func(path string, v any) {
		if s, ok := v.(string); ok {
			var err error
			switch *d, err = time.ParseDuration(s); {
			case err != nil:
				r.add(path, show(v), `must be a duration like "1m30s", or a number of seconds`)
			case *d == 0 && strings.ContainsAny(s, "123456789"):
				r.add(path, show(v), "is too short for a duration")
			}
			return
		}
		seconds, ok := r.number(path, v)
		if !ok {
			return
		}
		// Not negative, or check reports it; within the range, so that the
		// conversion is sound.
		ns := math.Round(seconds * float64(time.Second))
		switch {
		case !(math.Abs(ns) < 1<<63):
			r.add(path, show(v), "is too long for a duration")
		case ns == 0 && seconds != 0:
			r.add(path, show(v), "is too short for a duration")
		default:
			*d = time.Duration(ns)
		}
	}
}

// positive reads a duration for which 0 would not mean 0 but the default.
func (r reader) positive(d *time.Duration) field {
	return func(path string, v any) {
		known := len(*r.faults)
		if r.duration(d)(path, v); *d == 0 && len(*r.faults) == known {
			r.add(path, show(v), "must be positive; leave it out for the default")
		}
	}
}

// multiplier is positive for a number.
func (r reader) multiplier(m *float64) field {
	return func(path string, v any) {
		var ok bool
		if *m, ok = r.number(path, v); ok && *m == 0 {
			r.add(path, show(v), "must be at least 1; leave it out for the default")
		}
	}
}

func (r reader) whole(path string, v any) (int, bool) {
	if isNumber(v) {
		// Every integer of a JSON or YAML library prints as its digits.
		if n, err := strconv.Atoi(fmt.Sprint(v)); err == nil {
			return n, true
		}
		const exact = 1 << 53
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err == nil && f == math.Trunc(f) && math.Abs(f) <= min(exact, math.MaxInt) {
			return int(f), true
		}
	}
	r.add(path, show(v), "must be a whole number")
	return 0, false
}

func (r reader) number(path string, v any) (float64, bool) {
	if f, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && isNumber(v) && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f, true
	}
	r.add(path, show(v), "must be a number")
	return 0, false
}

// isNumber knows what JSON and YAML libraries make of numbers.
func isNumber(v any) bool {
	switch v.(type) {
	case json.Number, float64, int, int64, uint64:
		return true
	default:
		return false
	}
}

// asObject takes the maps of JSON and YAML libraries.
func asObject(v any) (object, bool) {
	switch m := v.(type) {
	case object:
		return m, true
	case map[any]any: // yaml.v2
		o := make(object, len(m))
		for k, v := range m {
			o[fmt.Sprint(k)] = v
		}
		return o, true
	default:
		return nil, false
	}
}

// join appends a key to a path. A path stays short even if the keys, which come
// from outside, are not.
func join(path, key string) string {
	const most = 60
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most], "") + "…"
	}
	return strings.TrimPrefix(path+"."+key, ".")
}

// show prints a value for an error, as JSON if it can and not at length.
func show(v any) string {
	const most = 60
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Append(nil, v)
	}
	if len(b) > most {
		b = append(bytes.ToValidUTF8(b[:most], nil), "…"...)
	}
	return string(b)
}

// decodeJSON decodes like [json.Unmarshal] into an any, but notes repeated keys
// and keeps numbers as they are written.
func decodeJSON(data []byte, f *faults) (any, error) {
	// Whole and not too deep before it is taken apart.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return decodeValue(d, "", 0, f)
}

func decodeValue(d *json.Decoder, path string, depth int, f *faults) (any, error) {
	const deepest = 20 // far beyond any policy
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
		o := object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			at := join(path, name)
			v, err := decodeValue(d, at, depth+1, f)
			if err != nil {
				return nil, err
			}
			if _, twice := o[name]; twice {
				f.add(at, show(v), "repeated key")
			}
			o[name] = v
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1, f)
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

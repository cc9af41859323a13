package retry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// The words of the JSON form.
const (
	unlimitedText  = "unlimited"
	equalShareText = "equal_share"
)

var jitterNames = [...]string{FullJitter: "full", EqualJitter: "equal", NoJitter: "none"}

// object is one level of the JSON or YAML form.
type object = strictjson.Object

// reader reads the fields of a policy.
type reader struct{ strictjson.Reader }

// MarshalJSON returns the JSON form of the policy, which has the fields that are set:
//
//	{
//	  "name": "payments",
//	  "max_attempts": 4,
//	  "backoff": {"exponential": {"initial": "2s", "multiplier": 2}},
//	  "jitter": "full",
//	  "overrides": {"unknown": {"max_attempts": 2}}
//	}
//
// docs/policy.md has every key, its type and its default. Classifier, Budget, Quota, Observer,
// Clock and Rand are left out: they are not data, and the program sets them again in a policy that
// it has read. MarshalJSON fails if [Policy.Validate] finds a fault outside of the Budget, or if
// Backoff or Jitter is not a built-in one.
func (p Policy) MarshalJSON() ([]byte, error) {
	o, err := p.object()
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// MarshalYAML returns the shape of [Policy.MarshalJSON], for YAML libraries that honor the method.
func (p Policy) MarshalYAML() (any, error) { return p.object() }

// UnmarshalJSON reads the JSON form; see [Policy.MarshalJSON]. Durations are
// strings as in [time.ParseDuration] or numbers of seconds. "max_retries" is
// "max_attempts" - 1.
//
// Fields that are left out become their defaults, but Classifier, Budget, Quota, Observer, Clock
// and Rand are never touched. A field set to 0 is an error if its default is another value.
// Unknown and repeated keys, wrong types, and whatever [Policy.Validate] reports are errors too:
// the first hundred are reported at once, each with its path, its value and, if the policy has
// several lines, its line. p is then left as it was.
func (p *Policy) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		return nil // by convention
	}
	var f strictjson.Faults
	v, err := strictjson.Decode(data, &f)
	if err != nil {
		return fmt.Errorf("retry: policy: %w", err)
	}
	p.set(v, &f)
	f.Locate(data)
	return invalid(f)
}

// UnmarshalYAML reads the YAML form, which has the shape of the JSON form, from
// any library that honors the method; see [Policy.UnmarshalJSON].
//
// The document may have a million values and 20 levels, what stands behind an alias counted
// each time. But github.com/goccy/go-yaml merges keys (<<) without a limit: from strangers, take
// another library, or JSON.
func (p *Policy) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	v, err := strictjson.Plain(v)
	if err != nil {
		return fmt.Errorf("retry: policy: %w", err)
	}
	var f strictjson.Faults
	p.set(v, &f)
	return invalid(f)
}

// set replaces the data of p by a decoded policy if it has no faults.
func (p *Policy) set(v any, f *strictjson.Faults) {
	r := reader{strictjson.Reader{Faults: f}}
	q := Policy{Classifier: p.Classifier, Budget: p.Budget, Quota: p.Quota, Observer: p.Observer, Clock: p.Clock, Rand: p.Rand}
	r.Object(nil, v, r.policy(&q))
	q.checkData(f) // unreadable settings are unset, and so not reported twice
	if len(*f) == 0 {
		*p = q
	}
}

// object builds the JSON form.
func (p *Policy) object() (object, error) {
	var f strictjson.Faults
	p.checkData(&f)
	o := object{}
	set(o, "name", p.Name)
	setAttempts(o, p.MaxAttempts)
	setDuration(o, "max_elapsed", p.MaxElapsed)
	setAttemptTimeout(o, p.AttemptTimeout)
	setDuration(o, "timeout", p.Timeout)
	setDuration(o, "reset_after", p.ResetAfter)
	setDuration(o, "max_delay", p.MaxDelay)
	setDuration(o, "max_retry_after", p.MaxRetryAfter)
	set(o, "free_rate_limits", p.FreeRateLimits)
	set(o, "non_idempotent", p.NonIdempotent)
	setBackoff(o, nil, p.Backoff, &f)
	setJitter(o, nil, p.Jitter, &f)
	if len(p.Overrides) > 0 {
		overrides := object{}
		for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
			v, path := p.Overrides[kind], overridePath(kind)
			override := object{}
			setAttempts(override, v.MaxAttempts)
			setDuration(override, "max_delay", v.MaxDelay)
			setBackoff(override, path, v.Backoff, &f)
			setJitter(override, path, v.Jitter, &f)
			overrides[kind] = override
		}
		o["overrides"] = overrides
	}
	return o, invalid(f)
}

// checkData is check without the Budget, which is not part of the JSON form.
func (p *Policy) checkData(f *strictjson.Faults) {
	q := *p
	q.Budget = nil
	q.check(f)
}

func set[T comparable](o object, key string, v T) {
	var zero T
	if v != zero {
		o[key] = v
	}
}

func setDuration(o object, key string, d time.Duration) {
	if d != 0 {
		o[key] = d.String()
	}
}

func setAttempts(o object, n int) {
	if n == Unlimited {
		o["max_attempts"] = unlimitedText
		return
	}
	set(o, "max_attempts", n)
}

func setAttemptTimeout(o object, d time.Duration) {
	if d == EqualShare {
		o["attempt_timeout"] = equalShareText
		return
	}
	setDuration(o, "attempt_timeout", d)
}

func setBackoff(o object, path *strictjson.Path, b Backoff, f *strictjson.Faults) {
	var kind string
	args := object{}
	var value any = args
	switch b := b.(type) {
	case nil:
		return
	case Exponential:
		kind = "exponential"
		setDuration(args, "initial", b.Initial)
		set(args, "multiplier", b.Multiplier)
	case Linear:
		kind = "linear"
		setDuration(args, "initial", b.Initial)
		setDuration(args, "step", b.Step)
	case Fibonacci:
		kind = "fibonacci"
		setDuration(args, "initial", b.Initial)
	case Constant:
		kind, value = "constant", time.Duration(b).String()
	case Schedule:
		waits := make([]string, len(b))
		for i, d := range b {
			waits[i] = d.String()
		}
		kind, value = "schedule", waits
	default:
		f.Add(path.Key("backoff"), fmt.Sprintf("%T", b), "has no JSON form")
		return
	}
	o["backoff"] = object{kind: value}
}

func setJitter(o object, path *strictjson.Path, j Jitter, f *strictjson.Faults) {
	switch j := j.(type) {
	case nil:
	case jitterMode:
		o["jitter"] = jitterNames[j]
	case Proportional:
		o["jitter"] = object{"proportional": float64(j)}
	case PlusMinus:
		o["jitter"] = object{"plus_minus": time.Duration(j).String()}
	default:
		f.Add(path.Key("jitter"), fmt.Sprintf("%T", j), "has no JSON form")
	}
}

// policy returns the fields of the JSON form by their keys.
func (r reader) policy(p *Policy) strictjson.Fields {
	return strictjson.Fields{
		"name":             r.Text(&p.Name),
		"max_attempts":     r.attempts(&p.MaxAttempts, 0),
		"max_retries":      r.attempts(&p.MaxAttempts, 1),
		"max_elapsed":      r.Duration(&p.MaxElapsed),
		"attempt_timeout":  r.attemptTimeout(&p.AttemptTimeout),
		"timeout":          r.Duration(&p.Timeout),
		"reset_after":      r.Duration(&p.ResetAfter),
		"backoff":          r.backoff(&p.Backoff),
		"max_delay":        r.Positive(&p.MaxDelay),
		"jitter":           r.jitter(&p.Jitter),
		"max_retry_after":  r.Positive(&p.MaxRetryAfter),
		"free_rate_limits": r.Count(&p.FreeRateLimits),
		"non_idempotent":   r.Flag(&p.NonIdempotent),
		"overrides":        r.overrides(&p.Overrides),
	}
}

func (r reader) overrides(overrides *map[string]Override) strictjson.Field {
	return func(path *strictjson.Path, v any) {
		for kind, v := range r.Entries(path, v) {
			switch {
			case *overrides == nil:
				*overrides = map[string]Override{}
			case len(*overrides) == mostOverrides:
				r.Add(path, "more", fmt.Sprintf("must have at most %d", mostOverrides))
				return
			}
			var o Override
			r.Object(overridePath(kind), v, r.override(&o))
			(*overrides)[kind] = o
		}
	}
}

// override returns the fields of an override by their keys.
func (r reader) override(o *Override) strictjson.Fields {
	return strictjson.Fields{
		"max_attempts": r.attempts(&o.MaxAttempts, 0),
		"max_retries":  r.attempts(&o.MaxAttempts, 1),
		"backoff":      r.backoff(&o.Backoff),
		"max_delay":    r.Positive(&o.MaxDelay),
		"jitter":       r.jitter(&o.Jitter),
	}
}

func (r reader) backoff(b *Backoff) strictjson.Field {
	return r.OneOf("", strictjson.Fields{
		"exponential": func(path *strictjson.Path, v any) {
			var e Exponential
			r.Object(path, v, strictjson.Fields{"initial": r.Positive(&e.Initial), "multiplier": r.Multiplier(&e.Multiplier)})
			*b = e
		},
		"linear": func(path *strictjson.Path, v any) {
			var l Linear
			r.Object(path, v, strictjson.Fields{"initial": r.Positive(&l.Initial), "step": r.Positive(&l.Step)})
			*b = l
		},
		"fibonacci": func(path *strictjson.Path, v any) {
			var f Fibonacci
			r.Object(path, v, strictjson.Fields{"initial": r.Positive(&f.Initial)})
			*b = f
		},
		"constant": func(path *strictjson.Path, v any) {
			var d time.Duration
			r.Duration(&d)(path, v)
			*b = Constant(d)
		},
		"schedule": func(path *strictjson.Path, v any) {
			list, ok := v.([]any)
			if !ok {
				r.Add(path, strictjson.Show(v), "must be a list of durations")
				return
			}
			*b = r.schedule(path, list)
		},
	})
}

// schedule reads waits. Too many are left to the check of the policy.
func (r reader) schedule(path *strictjson.Path, list []any) Schedule {
	s := make(Schedule, len(list))
	for i, v := range list[:min(len(list), mostWaits)] {
		r.Duration(&s[i])(path.Index(i), v)
	}
	return s
}

func (r reader) jitter(j *Jitter) strictjson.Field {
	return func(path *strictjson.Path, v any) {
		name, _ := v.(string)
		if mode := slices.Index(jitterNames[:], name); mode >= 0 {
			*j = jitterMode(mode)
			return
		}
		r.OneOf(`"full", "equal", "none", or `, strictjson.Fields{
			"proportional": func(path *strictjson.Path, v any) {
				if fraction, ok := r.Number(path, v); ok {
					*j = Proportional(fraction)
				}
			},
			"plus_minus": func(path *strictjson.Path, v any) {
				var d time.Duration
				r.Duration(&d)(path, v)
				*j = PlusMinus(d)
			},
		})(path, v)
	}
}

// attemptTimeout reads a duration or the word for EqualShare.
func (r reader) attemptTimeout(d *time.Duration) strictjson.Field {
	return func(path *strictjson.Path, v any) {
		if v == equalShareText {
			*d = EqualShare
			return
		}
		r.Duration(d)(path, v)
		*d = max(*d, EqualShare+1) // as a number it is a negative duration like any other
	}
}

// attempts reads a number and adds extra to get the number of attempts.
func (r reader) attempts(n *int, extra int) strictjson.Field {
	return func(path *strictjson.Path, v any) {
		if *n != 0 {
			r.Add(path, strictjson.Show(v), "max_attempts and max_retries exclude each other")
			return
		}
		if v == unlimitedText {
			*n = Unlimited
			return
		}
		if _, isText := v.(string); isText {
			r.Add(path, strictjson.Show(v), fmt.Sprintf("must be a whole number, or %q", unlimitedText))
			return
		}
		count, ok := r.Whole(path, v)
		switch {
		case !ok:
		case count < 1-extra:
			r.Add(path, count, fmt.Sprintf("must be at least %d; leave it out for the default", 1-extra))
		case count > Unlimited-extra:
			*n = Unlimited
		default:
			*n = count + extra
		}
	}
}

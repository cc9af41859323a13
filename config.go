package retry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The words of the JSON form.
const unlimitedText = "unlimited"

var jitterNames = [...]string{FullJitter: "full", EqualJitter: "equal", NoJitter: "none"}

// object is one level of the JSON or YAML form.
type object = map[string]any

// MarshalJSON returns the JSON form of the policy. It has the fields that are
// set, but never Classifier, Budget, Observer, Clock and Rand, which are not
// data:
//
//	{
//	  "name": "payments",
//	  "max_attempts": 4,
//	  "max_elapsed": "2m",
//	  "attempt_timeout": "10s",
//	  "timeout": "5m",
//	  "reset_after": "1m",
//	  "backoff": {"exponential": {"initial": "2s", "multiplier": 2}},
//	  "max_delay": "30s",
//	  "jitter": "full",
//	  "max_retry_after": "1m",
//	  "free_rate_limits": 10,
//	  "non_idempotent": true,
//	  "overrides": {"unknown": {"max_attempts": 2}}
//	}
//
// Other backoffs are {"linear": {"initial": "1s", "step": "1s"}},
// {"fibonacci": {"initial": "1s"}}, {"constant": "5s"} and
// {"schedule": ["1s", "5s", "30s"]}; other jitters are "equal", "none",
// {"proportional": 0.1} and {"plus_minus": "30s"}. Unlimited attempts are
// "unlimited".
//
// It fails if [Policy.Validate] does, or if Backoff or Jitter is not a built-in
// one.
func (p Policy) MarshalJSON() ([]byte, error) {
	o, err := p.object()
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// MarshalYAML returns the policy in the shape of its JSON form, for YAML
// libraries that honor the method.
func (p Policy) MarshalYAML() (any, error) { return p.object() }

// UnmarshalJSON reads the JSON form; see [Policy.MarshalJSON]. Durations are
// strings as in [time.ParseDuration] or numbers of seconds. "max_retries" is
// taken for "max_attempts" - 1.
//
// Fields that are left out become their defaults. A field set to 0 whose default
// is something else is an error, because it does not mean what it says. So are
// unknown and repeated keys, wrong types, and whatever [Policy.Validate]
// reports: all of them at once, each with its path and value. p is then left as
// it was. Classifier, Budget, Observer, Clock and Rand are never touched.
func (p *Policy) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil // by convention
	}
	var f faults
	v, err := decodeJSON(data, &f)
	if err != nil {
		return fmt.Errorf("retry: policy: %w", err)
	}
	return p.set(v, &f)
}

// UnmarshalYAML reads the YAML form, which has the shape of the JSON form, from
// any library that honors the method; see [Policy.UnmarshalJSON].
func (p *Policy) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	return p.set(v, new(faults))
}

// set takes over a decoded policy if it has no faults.
func (p *Policy) set(v any, f *faults) error {
	r := reader{f}
	q := *p // Classifier, Budget, Observer, Clock and Rand stay
	q.Name, q.MaxAttempts, q.MaxElapsed, q.AttemptTimeout = "", 0, 0, 0
	q.Backoff, q.MaxDelay, q.Jitter, q.MaxRetryAfter = nil, 0, nil, 0
	q.FreeRateLimits, q.NonIdempotent, q.Overrides = 0, false, nil
	q.Timeout, q.ResetAfter = 0, 0
	r.object("", v, r.policy(&q))
	q.checkData(f) // what could not be read is unset, and so not reported twice
	if err := f.err(); err != nil {
		return err
	}
	*p = q
	return nil
}

// object builds the JSON form.
func (p *Policy) object() (object, error) {
	var f faults
	p.checkData(&f)
	o := object{}
	set(o, "name", p.Name)
	setAttempts(o, p.MaxAttempts)
	setDuration(o, "max_elapsed", p.MaxElapsed)
	setDuration(o, "attempt_timeout", p.AttemptTimeout)
	setDuration(o, "timeout", p.Timeout)
	setDuration(o, "reset_after", p.ResetAfter)
	setDuration(o, "max_delay", p.MaxDelay)
	setDuration(o, "max_retry_after", p.MaxRetryAfter)
	set(o, "free_rate_limits", p.FreeRateLimits)
	set(o, "non_idempotent", p.NonIdempotent)
	setBackoff(o, "", p.Backoff, &f)
	setJitter(o, "", p.Jitter, &f)
	if len(p.Overrides) > 0 {
		overrides := object{}
		for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
			v, path := p.Overrides[kind], overridePath(kind)+"."
			override := object{}
			setAttempts(override, v.MaxAttempts)
			setDuration(override, "max_delay", v.MaxDelay)
			setBackoff(override, path, v.Backoff, &f)
			setJitter(override, path, v.Jitter, &f)
			overrides[kind] = override
		}
		o["overrides"] = overrides
	}
	return o, f.err()
}

// checkData is check without the Budget, which is not part of the JSON form.
func (p *Policy) checkData(f *faults) {
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

func setBackoff(o object, path string, b Backoff, f *faults) {
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
		f.add(path+"backoff", fmt.Sprintf("%T", b), "has no JSON form")
		return
	}
	o["backoff"] = object{kind: value}
}

func setJitter(o object, path string, j Jitter, f *faults) {
	switch j := j.(type) {
	case nil:
	case jitterMode:
		o["jitter"] = jitterNames[min(j, NoJitter)]
	case proportional:
		o["jitter"] = object{"proportional": float64(j)}
	case plusMinus:
		o["jitter"] = object{"plus_minus": time.Duration(j).String()}
	default:
		f.add(path+"jitter", fmt.Sprintf("%T", j), "has no JSON form")
	}
}

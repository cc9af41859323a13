package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/seed-5ff3c98e/retry"
)

// policyFlags are the flags that make a policy: a file, and settings that take the
// place of the file's.
type policyFlags struct {
	file, name string
	set        map[string]any // the settings, in the JSON form of a policy
	seconds    string         // the value of --attempt-timeout, if it is a number without a unit
}

// register adds the flags.
func (p *policyFlags) register(flags *pflag.FlagSet) {
	p.set = map[string]any{}
	flags.VarP(setting{p, "max_attempts", numeric, "N"}, "attempts", "n", "runs in all, or unlimited; default 3")
	flags.VarP(setting{p, "backoff", backoff, "SPEC"}, "backoff", "b", "exponential:2s (default), constant:5s, 1s,5s,30s")
	flags.VarP(setting{p, "max_delay", numeric, "TIME"}, "max-delay", "m", "the longest wait; default 30s")
	flags.VarP(setting{p, "jitter", jitter, "SPEC"}, "jitter", "j", "full (default), equal, none, 10%, 2s")
	flags.VarP(setting{p, "attempt_timeout", numeric, "TIME"}, "attempt-timeout", "t", "of each run")
	flags.VarP(setting{p, "timeout", numeric, "TIME"}, "timeout", "T", "of all, waits included")
	flags.Var(setting{p, "max_elapsed", numeric, "TIME"}, "max-elapsed", "no run begins later; interrupts none")
	flags.VarP(value[string]{&p.file, anyText, "FILE"}, "policy", "p", "a file with policies, JSON or YAML; flags win")
	flags.Var(value[string]{&p.name, anyText, "NAME"}, "policy-name", "of the policy in the file")
}

// policy returns what the flags say.
func (p *policyFlags) policy() (*retry.Policy, error) { return p.over(&retry.Policy{}) }

// over is policy with other settings than the defaults, unless there is a file.
func (p *policyFlags) over(policy *retry.Policy) (*retry.Policy, error) {
	switch {
	case p.file != "":
		var err error
		if policy, err = policyFromFile(p.file, p.name); err != nil {
			return nil, err
		}
	case p.name != "":
		return nil, fmt.Errorf("--policy-name %s: needs --policy FILE", p.name)
	}
	return with(policy, p.set)
}

// with returns a policy with other settings.
func with(policy *retry.Policy, settings map[string]any) (*retry.Policy, error) {
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, settings)
	if text, err = json.Marshal(all); err != nil {
		return nil, err
	}
	changed := *policy
	return &changed, changed.UnmarshalJSON(text)
}

// setting is a flag that sets one key of a policy.
type setting struct {
	of   *policyFlags
	key  string
	read func(text string) any // as the JSON form has it
	kind string
}

// Set implements [pflag.Value].
func (s setting) Set(text string) error {
	v := s.read(text)
	if raw := json.RawMessage(text); strings.HasPrefix(text, "{") && json.Valid(raw) {
		v = raw
	}
	s.of.set[s.key] = v
	if _, err := with(&retry.Policy{}, map[string]any{s.key: v}); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "retry: invalid policy: "))
	}
	if s.key == "attempt_timeout" && strings.Trim(text, "0123456789") == "" {
		s.of.seconds = text
	}
	return nil
}

// String implements [pflag.Value]. The defaults are part of the help.
func (s setting) String() string { return "" }

// Type implements [pflag.Value].
func (s setting) Type() string { return s.kind }

// numeric returns a number, such as one of seconds, or else the text.
func numeric(text string) any {
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
		return n
	}
	return text
}

// backoff reads KIND[:TIME[:TIME or FACTOR]], a list of waits, or one wait.
func backoff(text string) any {
	kind, rest, _ := strings.Cut(text, ":")
	if kind == "constant" {
		return map[string]any{kind: numeric(rest)}
	}
	if !word(text) {
		waits := []any{}
		for wait := range strings.SplitSeq(text, ",") {
			waits = append(waits, numeric(strings.TrimSpace(wait)))
		}
		if len(waits) == 1 {
			return map[string]any{"constant": waits[0]}
		}
		return map[string]any{"schedule": waits}
	}
	fields := map[string]any{}
	for i, argument := range strings.SplitN(rest, ":", 2) {
		switch {
		case argument == "":
		case i == 0:
			fields["initial"] = numeric(argument)
		case kind == "exponential":
			fields["multiplier"] = numeric(argument)
		default:
			fields["step"] = numeric(argument)
		}
	}
	return map[string]any{kind: fields}
}

// word reports whether text begins with a letter, and not with a number.
func word(text string) bool { return text != "" && unicode.IsLetter(rune(text[0])) }

// jitter reads a share, a time, a word, or KIND:ARGUMENT.
func jitter(text string) any {
	percent, share := strings.CutSuffix(text, "%")
	kind, argument, args := strings.Cut(text, ":")
	n, err := strconv.ParseFloat(percent, 64)
	switch {
	case share && err == nil:
		return map[string]any{"proportional": n / 100}
	case !word(text):
		return map[string]any{"plus_minus": numeric(text)}
	case args:
		return map[string]any{kind: numeric(argument)}
	default:
		return text
	}
}

// value is a flag whose text is parsed by a function.
type value[T any] struct {
	to    *T
	parse func(string) (T, error)
	kind  string
}

// Set implements [pflag.Value].
func (v value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to = parsed
	}
	return err
}

// String implements [pflag.Value]. The defaults are part of the help.
func (v value[T]) String() string { return "" }

// Type implements [pflag.Value].
func (v value[T]) Type() string { return v.kind }

func anyText(text string) (string, error) { return text, nil }

func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds < math.MaxInt64/1e9 {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("must be a time like 1m30s, or a number of seconds")
	}
	return d, nil
}

func parsePositive(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err == nil && d == 0 {
		err = errors.New("must be positive; leave it out for the default")
	}
	return d, err
}

package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-5ff3c98e/retry"
)

// policyFlags are the flags that make a policy: a file, and settings that take the
// place of the file's.
type policyFlags struct {
	file, name string
	set        retry.Policy
	flags      *pflag.FlagSet
}

// register adds the flags.
func (p *policyFlags) register(flags *pflag.FlagSet) {
	p.flags = flags
	flags.VarP(value[int]{&p.set.MaxAttempts, parseAttempts, "N"}, "attempts", "n", "runs in all, or unlimited; default 3")
	flags.VarP(value[retry.Backoff]{&p.set.Backoff, parseBackoff, "SPEC"}, "backoff", "b", "exponential:2s (default), constant:5s, 1s,5s,30s")
	flags.VarP(value[time.Duration]{&p.set.MaxDelay, parsePositive, "TIME"}, "max-delay", "m", "the longest wait; default 30s")
	flags.VarP(value[retry.Jitter]{&p.set.Jitter, parseJitter, "SPEC"}, "jitter", "j", "full (default), equal, none, 10%, 2s")
	flags.VarP(value[time.Duration]{&p.set.AttemptTimeout, parsePositive, "TIME"}, "attempt-timeout", "t", "of each run")
	flags.VarP(value[time.Duration]{&p.set.Timeout, parsePositive, "TIME"}, "timeout", "T", "of all, waits included")
	flags.Var(value[time.Duration]{&p.set.MaxElapsed, parsePositive, "TIME"}, "max-elapsed", "no run begins later; interrupts none")
	flags.VarP(value[string]{&p.file, anyText, "FILE"}, "policy", "p", "a file with policies, JSON or YAML; flags win")
	flags.Var(value[string]{&p.name, anyText, "NAME"}, "policy-name", "of the policy in the file")
}

// policy returns what the flags say.
func (p *policyFlags) policy() (*retry.Policy, error) {
	policy := &retry.Policy{}
	switch {
	case p.file != "":
		var err error
		if policy, err = policyFromFile(p.file, p.name); err != nil {
			return nil, err
		}
	case p.name != "":
		return nil, fmt.Errorf("--policy-name %s: needs --policy FILE", p.name)
	}
	merged := *policy
	p.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "attempts":
			merged.MaxAttempts = p.set.MaxAttempts
		case "backoff":
			merged.Backoff = p.set.Backoff
		case "max-delay":
			merged.MaxDelay = p.set.MaxDelay
		case "jitter":
			merged.Jitter = p.set.Jitter
		case "attempt-timeout":
			merged.AttemptTimeout = p.set.AttemptTimeout
		case "timeout":
			merged.Timeout = p.set.Timeout
		case "max-elapsed":
			merged.MaxElapsed = p.set.MaxElapsed
		}
	})
	if err := merged.Validate(); err != nil {
		return nil, err
	}
	return &merged, nil
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

func parseAttempts(text string) (int, error) {
	if text == "unlimited" {
		return retry.Unlimited, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be a number of at least 1, or unlimited")
	}
	return n, nil
}

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

// parseBackoff reads KIND[:TIME[:TIME or FACTOR]], a list of waits, or one wait.
func parseBackoff(text string) (retry.Backoff, error) {
	kind, rest, _ := strings.Cut(text, ":")
	first, second, two := strings.Cut(rest, ":")
	initial := time.Duration(0)
	var err error
	if known := kind == "exponential" || kind == "linear" || kind == "fibonacci"; known && first != "" {
		if initial, err = parsePositive(first); err != nil {
			return nil, fmt.Errorf("%s: %w", first, err)
		}
	}
	switch {
	case kind == "exponential" && two:
		factor, err := strconv.ParseFloat(second, 64)
		if err != nil || !(factor >= 1 && factor <= math.MaxFloat64) {
			return nil, fmt.Errorf("%s: must be a factor of at least 1", second)
		}
		return retry.Exponential{Initial: initial, Multiplier: factor}, nil
	case kind == "exponential":
		return retry.Exponential{Initial: initial}, nil
	case kind == "linear" && two:
		step, err := parsePositive(second)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", second, err)
		}
		return retry.Linear{Initial: initial, Step: step}, nil
	case kind == "linear":
		return retry.Linear{Initial: initial}, nil
	case kind == "fibonacci" && !two:
		return retry.Fibonacci{Initial: initial}, nil
	case kind == "constant" && !two:
		d, err := parseDuration(first)
		return retry.Constant(d), err
	}
	return parseSchedule(text)
}

// parseSchedule reads waits that are written one by one.
func parseSchedule(text string) (retry.Backoff, error) {
	var waits retry.Schedule
	for wait := range strings.SplitSeq(text, ",") {
		d, err := parseDuration(strings.TrimSpace(wait))
		if err != nil {
			return nil, errors.New("must be exponential:TIME:FACTOR, linear:TIME:TIME, fibonacci:TIME, constant:TIME, or waits like 1s,5s,30s")
		}
		waits = append(waits, d)
	}
	if len(waits) == 1 {
		return retry.Constant(waits[0]), nil
	}
	return waits, nil
}

func parseJitter(text string) (retry.Jitter, error) {
	switch text {
	case "full":
		return retry.FullJitter, nil
	case "equal":
		return retry.EqualJitter, nil
	case "none":
		return retry.NoJitter, nil
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		if n, err := strconv.ParseFloat(percent, 64); err == nil && n >= 0 && n <= 100 {
			return retry.Proportional(math.Abs(n) / 100), nil // -0 is 0
		}
	} else if d, err := parseDuration(text); err == nil {
		return retry.PlusMinus(d), nil
	}
	return nil, errors.New("must be full, equal, none, a share like 10%, or a time like 2s")
}

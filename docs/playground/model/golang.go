package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-5ff3c98e/retry"
)

// literal returns the Go code of a policy, as gofmt writes it.
func literal(p *retry.Policy) string {
	var fields entries
	fields.add(p.Name != "", "Name:", strconv.Quote(p.Name))
	fields.add(p.MaxAttempts != 0, "MaxAttempts:", attempts(p.MaxAttempts))
	fields.add(p.MaxElapsed > 0, "MaxElapsed:", duration(p.MaxElapsed))
	fields.add(p.AttemptTimeout > 0, "AttemptTimeout:", duration(p.AttemptTimeout))
	fields.add(p.Timeout > 0, "Timeout:", duration(p.Timeout))
	fields.add(p.ResetAfter > 0, "ResetAfter:", duration(p.ResetAfter))
	fields.add(p.Backoff != nil, "Backoff:", backoff(p.Backoff))
	fields.add(p.MaxDelay > 0, "MaxDelay:", duration(p.MaxDelay))
	fields.add(p.Jitter != nil, "Jitter:", jitter(p.Jitter))
	fields.add(p.MaxRetryAfter > 0, "MaxRetryAfter:", duration(p.MaxRetryAfter))
	fields.add(p.FreeRateLimits > 0, "FreeRateLimits:", strconv.Itoa(p.FreeRateLimits))
	fields.add(p.NonIdempotent, "NonIdempotent:", "true")
	var overrides entries
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		overrides.add(true, strconv.Quote(kind)+":", "{"+override(p.Overrides[kind])+"}")
	}
	if len(overrides) == 0 {
		return "retry.Policy{\n" + fields.aligned("\t") + "}"
	}
	return "retry.Policy{\n" + fields.aligned("\t") +
		"\tOverrides: map[string]retry.Override{\n" + overrides.aligned("\t\t") + "\t},\n}"
}

// entries are keys and their values, one a line.
type entries [][2]string

func (e *entries) add(set bool, key, value string) {
	if set {
		*e = append(*e, [2]string{key, value})
	}
}

func (e *entries) aligned(indent string) string {
	width := 0
	for _, entry := range *e {
		width = max(width, utf8.RuneCountInString(entry[0]))
	}
	var b strings.Builder
	for _, entry := range *e {
		fmt.Fprintf(&b, "%s%-*s %s,\n", indent, width, entry[0], entry[1])
	}
	return b.String()
}

func override(o retry.Override) string {
	var parts []string
	if o.MaxAttempts > 0 {
		parts = append(parts, "MaxAttempts: "+attempts(o.MaxAttempts))
	}
	if o.Backoff != nil {
		parts = append(parts, "Backoff: "+backoff(o.Backoff))
	}
	if o.Jitter != nil {
		parts = append(parts, "Jitter: "+jitter(o.Jitter))
	}
	if o.MaxDelay > 0 {
		parts = append(parts, "MaxDelay: "+duration(o.MaxDelay))
	}
	return strings.Join(parts, ", ")
}

func attempts(n int) string {
	if n == retry.Unlimited {
		return "retry.Unlimited"
	}
	return strconv.Itoa(n)
}

// duration returns the code of a duration, in its largest whole unit.
func duration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{
		{time.Hour, "time.Hour"},
		{time.Minute, "time.Minute"},
		{time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"},
		{time.Microsecond, "time.Microsecond"},
	} {
		switch {
		case d == unit.d:
			return unit.name
		case d > 0 && d%unit.d == 0:
			return fmt.Sprintf("%d * %s", d/unit.d, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}

func backoff(b retry.Backoff) string {
	var parts []string
	add := func(name string, d time.Duration) {
		if d > 0 {
			parts = append(parts, name+": "+duration(d))
		}
	}
	switch b := b.(type) {
	case retry.Exponential:
		add("Initial", b.Initial)
		if b.Multiplier != 0 {
			parts = append(parts, fmt.Sprint("Multiplier: ", b.Multiplier))
		}
		return "retry.Exponential{" + strings.Join(parts, ", ") + "}"
	case retry.Linear:
		add("Initial", b.Initial)
		add("Step", b.Step)
		return "retry.Linear{" + strings.Join(parts, ", ") + "}"
	case retry.Fibonacci:
		add("Initial", b.Initial)
		return "retry.Fibonacci{" + strings.Join(parts, ", ") + "}"
	case retry.Constant:
		return "retry.Constant(" + duration(time.Duration(b)) + ")"
	case retry.Schedule:
		for _, d := range b {
			parts = append(parts, duration(d))
		}
		return "retry.Schedule{" + strings.Join(parts, ", ") + "}"
	default:
		return "nil"
	}
}

func jitter(j retry.Jitter) string {
	switch j := j.(type) {
	case retry.JitterMode:
		return "retry." + [...]string{retry.FullJitter: "FullJitter", retry.EqualJitter: "EqualJitter", retry.NoJitter: "NoJitter"}[j]
	case retry.Proportional:
		return fmt.Sprintf("retry.Proportional(%v)", float64(j))
	case retry.PlusMinus:
		return "retry.PlusMinus(" + duration(time.Duration(j)) + ")"
	default:
		return "nil"
	}
}

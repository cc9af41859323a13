package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// String returns the behavior of the policy in one line:
//
//	3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
//
// The waits are the results of [Policy.Bounds], at most the first five. Settings that are not the
// default follow, and the Overrides by kind: "; timeout 5m0s; unknown: 2 attempts". A policy may come
// from outside: of names, up to 200 bytes are shown, and escaped.
func (p Policy) String() string {
	var b strings.Builder
	if p.Name != "" {
		b.WriteString(show.Name(p.Name, mostName) + ": ")
	}
	b.WriteString(attemptsOf(p.limit()))
	if p.MaxElapsed > 0 {
		fmt.Fprintf(&b, " within %v", p.MaxElapsed)
	}
	if p.limit() > 1 {
		p.writeWaits(&b)
	}
	p.writeRest(&b)
	return b.String()
}

// mostName is how many bytes of a name are shown.
const mostName = 200

func attemptsOf(limit int) string {
	if limit == 1 {
		return "1 attempt"
	}
	return attemptsText(limit) + " attempts"
}

// writeWaits says how long p waits.
func (p *Policy) writeWaits(b *strings.Builder) {
	backoff := p.Backoff
	if backoff == nil {
		backoff = Exponential{}
	}
	fmt.Fprintf(b, ", %v", backoff)
	if _, written := longest(backoff); !written || p.MaxDelay > 0 {
		fmt.Fprintf(b, " ≤%v", p.ceiling())
	}
	fmt.Fprintf(b, ", %v: waits ", p.jitter())
	const shown = 5
	for retry := 1; retry < p.limit() && retry <= shown; retry++ {
		if retry > 1 {
			b.WriteString(", ")
		}
		lo, hi := p.Bounds(retry)
		switch lo {
		case hi:
			b.WriteString(rounded(hi))
		case 0:
			b.WriteString("0–" + rounded(hi))
		default:
			b.WriteString(rounded(lo) + "–" + rounded(hi))
		}
	}
	if p.limit()-1 > shown {
		b.WriteString(", …")
	}
}

// rounded leaves three digits or so, which is what a person reads.
func rounded(d time.Duration) string {
	unit := time.Nanosecond
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit).String()
}

// writeRest writes the other settings.
func (p *Policy) writeRest(b *strings.Builder) {
	say := func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(b, "; "+format, args...)
		}
	}
	say(p.AttemptTimeout > 0, "attempt timeout %v", p.AttemptTimeout)
	say(p.AttemptTimeout == EqualShare, "attempts share the time left")
	say(p.Timeout > 0, "timeout %v", p.Timeout)
	say(p.ResetAfter > 0, "reset after %v", p.ResetAfter)
	say(p.MaxRetryAfter > 0, "hints ≤%v", p.MaxRetryAfter)
	say(p.FreeRateLimits > 0, "%s free rate limits", attemptsText(p.FreeRateLimits))
	say(p.NonIdempotent, "only what is not applied")
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		say(true, "%s: %s", show.Name(kind, mostName), p.Overrides[kind].text())
	}
}

// text returns the settings that are set: "2 attempts, constant 5s".
func (o Override) text() string {
	var parts []string
	if o.MaxAttempts > 0 {
		parts = append(parts, attemptsOf(o.MaxAttempts))
	}
	if o.Backoff != nil {
		parts = append(parts, fmt.Sprint(o.Backoff))
	}
	if o.MaxDelay > 0 {
		parts = append(parts, "≤"+o.MaxDelay.String())
	}
	if o.Jitter != nil {
		parts = append(parts, fmt.Sprint(o.Jitter))
	}
	if len(parts) == 0 {
		return "as the policy"
	}
	return strings.Join(parts, ", ")
}

package retry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// State is the information about the failures so far that a [Policy] needs. It fits
// into a database column or a message header. It has a JSON form,
//
//	{"failures":2,"rate_limited":1,"pending":4,"first":"2026-11-21T06:48:00Z"}
//
// and a text form,
//
//	f=2 r=1 p=4 t=2026-11-21T06:48:00Z
//
// Both forms leave zero fields out and ignore unknown keys. The zero State is
// the state before the first attempt; its text form is empty.
type State struct {
	// Failures counts the failures so far that cost an attempt, without the
	// failure that is being decided. It starts again after an answer that is [Pending].
	// A negative count is 0.
	Failures int

	// RateLimited counts the failures that cost no attempt.
	RateLimited int

	// Pending counts the attempts that found nothing yet, see [MarkPending], and the
	// failures before them that Failures counts no more.
	Pending int

	// First is when the first attempt began, or when the last attempt that made progress ended.
	// Zero means unknown: MaxElapsed and Timeout end nothing then, and nothing before First. So
	// where strangers can write a State, limit the attempts too.
	First time.Time

	// Key is not stored. If it is not empty, jitter is a hash of Key and the
	// counts instead of random, so that every process draws the same wait. The
	// name or ID of the job is a good key.
	Key string
}

// normalize makes negative counts 0.
func (s *State) normalize() {
	s.Failures, s.RateLimited, s.Pending = max(s.Failures, 0), max(s.RateLimited, 0), max(s.Pending, 0)
}

// restart begins a new count.
func (s *State) restart(now time.Time) {
	s.Failures, s.RateLimited, s.Pending = 0, 0, 0
	if !now.IsZero() {
		s.First = now
	}
}

// counter returns the count that a failure belongs to. A pending answer is that of a server that
// works, so the failures before it are no longer failures in a row.
func (s *State) counter(f *known.Fact, free int) *int {
	switch {
	case f.Class == known.Pending && !f.Flags.Has(known.NotStarted):
		if s.Pending += s.Failures; s.Pending < 0 {
			s.Pending = math.MaxInt
		}
		s.Failures = 0
		return &s.Pending
	case f.Class == known.Pending:
		return &s.Pending
	case f.Class == known.RateLimited && s.RateLimited < free:
		return &s.RateLimited
	default:
		return &s.Failures
	}
}

// retry returns the number of the retry for the backoff, after a failure that was
// counted.
func (s *State) retry(counter *int) int {
	if counter == &s.RateLimited {
		return max(s.Failures, s.Failures+1) // it may be the largest number
	}
	return *counter
}

// Attempts returns how many attempts have failed or found nothing yet: the sum of the counts.
func (s State) Attempts() int { return s.attempts() }

func (s *State) attempts() int {
	n := max(s.Failures, 0) + max(s.RateLimited, 0)
	if n < 0 { // beyond what an int can be
		return math.MaxInt
	}
	if n += max(s.Pending, 0); n < 0 {
		return math.MaxInt
	}
	return n
}

// stateJSON is the JSON form of a State.
type stateJSON struct {
	Failures    int       `json:"failures,omitempty"`
	RateLimited int       `json:"rate_limited,omitempty"`
	Pending     int       `json:"pending,omitempty"`
	First       time.Time `json:"first,omitzero"`
}

// MarshalJSON returns the JSON form.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(stateJSON{s.Failures, s.RateLimited, s.Pending, s.First})
}

// UnmarshalJSON reads the JSON form, of 64 KiB at most. It leaves Key as it is.
func (s *State) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil // by convention
	}
	var j stateJSON
	if len(data) > longestState {
		return tooLong(len(data))
	}
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("retry: state: %w", show.Error(err))
	}
	return s.set(j)
}

// longestState is how many bytes are read. A stored State may come from a stranger, and
// has less than 200, even with keys of a version to come.
const longestState = 64 << 10

func tooLong(size int) error {
	return fmt.Errorf("retry: state: %d bytes: must have at most %d", size, longestState)
}

// MarshalText returns the text form.
func (s State) MarshalText() ([]byte, error) {
	var parts []string
	for i, n := range [...]int{s.Failures, s.RateLimited, s.Pending} {
		if n != 0 {
			parts = append(parts, "frp"[i:i+1]+"="+strconv.Itoa(n))
		}
	}
	if !s.First.IsZero() {
		first, err := s.First.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("retry: state: %w", err)
		}
		parts = append(parts, "t="+string(first))
	}
	return []byte(strings.Join(parts, " ")), nil
}

// UnmarshalText reads the text form, of 64 KiB at most. It leaves Key as it is.
func (s *State) UnmarshalText(text []byte) (err error) {
	var j stateJSON
	if len(text) > longestState {
		return tooLong(len(text))
	}
	for part := range strings.FieldsSeq(string(text)) {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("retry: state: %s: want key=value", show.Quote(part))
		}
		switch key {
		case "f":
			j.Failures, err = strconv.Atoi(value)
		case "r":
			j.RateLimited, err = strconv.Atoi(value)
		case "p":
			j.Pending, err = strconv.Atoi(value)
		case "t":
			err = j.First.UnmarshalText([]byte(value))
		}
		if err != nil {
			return fmt.Errorf("retry: state: %s: %w", show.Text(part), show.Error(err))
		}
	}
	return s.set(j)
}

// set replaces s by the decoded state if that is valid.
func (s *State) set(j stateJSON) error {
	for i, n := range [...]int{j.Failures, j.RateLimited, j.Pending} {
		if n < 0 {
			return fmt.Errorf("retry: state: %s: %d: must not be negative", [...]string{"failures", "rate_limited", "pending"}[i], n)
		}
	}
	s.Failures, s.RateLimited, s.Pending, s.First = j.Failures, j.RateLimited, j.Pending, j.First
	return nil
}

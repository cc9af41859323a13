package retryslog

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// maxKinds and maxName bound the memory, because a category may come from a server. Kinds of
// which nothing was left out make room. If there are none, the kinds of further lines differ by
// message, policy and stop reason, which are the program's, and at twice that many by message
// only. Longer names differ by their beginning.
const maxKinds, maxName = 1000, 100

// kind has the fields that are equal in all lines of a kind.
type kind struct {
	message, policy, category string
	class                     retry.Class
	stop                      retry.StopReason
}

// storm holds back lines of the same kind.
type storm struct {
	interval time.Duration

	mu    sync.Mutex
	kinds map[kind]*window
	swept time.Time // when kinds made room
}

// window is the time after a line.
type window struct {
	ends       time.Time
	suppressed int
}

// admit reports whether a line is to be logged now, and how many lines of its kind were
// left out since the last one.
func (s *storm) admit(message string, e retry.Event, now time.Time) (suppressed int, ok bool) {
	key := kind{message, name(e.Policy), name(e.Verdict.Category), e.Verdict.Class, e.Stop}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.kinds[key]
	if w == nil && len(s.kinds) >= maxKinds {
		s.sweep(now)
	}
	if w == nil && len(s.kinds) >= maxKinds {
		key.category, key.class = "", 0
		w = s.kinds[key]
	}
	if w == nil && len(s.kinds) >= 2*maxKinds {
		key = kind{message: message}
		w = s.kinds[key]
	}
	if w == nil {
		if s.kinds == nil {
			s.kinds = map[kind]*window{}
		}
		w = &window{}
		key.policy, key.category = strings.Clone(key.policy), strings.Clone(key.category)
		s.kinds[key] = w
	}
	if now.Before(w.ends) {
		w.suppressed++
		return 0, false
	}
	suppressed = w.suppressed
	*w = window{ends: now.Add(s.interval)}
	return suppressed, true
}

// sweep forgets kinds whose windows have ended with nothing left out, at most once in an
// Interval.
func (s *storm) sweep(now time.Time) {
	if now.Before(s.swept.Add(s.interval)) {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.kinds, func(_ kind, w *window) bool { return w.suppressed == 0 && !now.Before(w.ends) })
}

func name(text string) string { return text[:min(len(text), maxName)] }

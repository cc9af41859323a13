package retrykafka

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

const (
	most        = 32      // records may be under way: their marks fit into offset.metadata.max.bytes
	mostCounted = 999_999 // failures of a record: further ones are not counted
)

// progress is what has become of the records of a partition. Its JSON is the metadata of
// a commit, whose offset is that of the first mark, or Next. All records before Next have
// ended, except those with a mark.
type progress struct {
	Marks []mark `json:"retry"`
	Next  int64  `json:"next"`
}

// mark is a record that is under way: it has begun and has not ended.
type mark struct {
	Offset  int64     `json:"o"`
	State   stateText `json:"s,omitzero"`
	Due     int64     `json:"d,omitempty"` // in milliseconds of Unix time, if it waits
	Running bool      `json:"r,omitempty"`
}

// stateText is a State whose JSON is its text form, which is shorter.
type stateText retry.State

func (s stateText) MarshalText() ([]byte, error) { return retry.State(s.bounded()).MarshalText() }

func (s *stateText) UnmarshalText(text []byte) error {
	err := (*retry.State)(s).UnmarshalText(text)
	*s = s.bounded()
	return err
}

// bounded bounds the text, and what others have written.
func (s stateText) bounded() stateText {
	s.Failures, s.RateLimited, s.Pending = min(s.Failures, mostCounted), min(s.RateLimited, mostCounted), min(s.Pending, mostCounted)
	if s.First = s.First.UTC().Truncate(time.Millisecond); s.First.Year() > 9999 { // it has no text
		s.First = time.Time{}
	}
	return s
}

// commit returns the offset and the metadata to commit.
func (p progress) commit() (offset int64, metadata string) {
	if len(p.Marks) == 0 {
		return p.Next, ""
	}
	slices.SortFunc(p.Marks, func(a, b mark) int { return cmp.Compare(a.Offset, b.Offset) })
	text, _ := json.Marshal(p) // cannot fail; without it, the records would begin anew
	return p.Marks[0].Offset, string(text)
}

// progressOf reads what was committed. Metadata of somebody else says nothing.
func progressOf(offset int64, metadata *string) progress {
	var p progress
	if metadata == nil || json.Unmarshal([]byte(*metadata), &p) != nil || len(p.Marks) == 0 || p.Marks[0].Offset != offset {
		return progress{Next: max(offset, 0)} // -1: nothing was committed
	}
	return p
}

package retrykafka_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 22, 9, 0, 0, 123000000, time.UTC)
	tests := []struct {
		progress retrykafka.Progress
		offset   int64
		metadata string
	}{
		{retrykafka.Progress{Next: 7}, 7, ""},
		{
			retrykafka.Progress{Next: 9, Marks: []retrykafka.Mark{{Offset: 8, Running: true}, {
				Offset: 5, State: retrykafka.StateText{Failures: 2, RateLimited: 1, First: first}, Due: 1000,
			}}},
			5, `{"retry":[{"o":5,"s":"f=2 r=1 t=2026-11-22T09:00:00.123Z","d":1000},{"o":8,"r":true}],"next":9}`,
		},
	}
	for _, test := range tests {
		offset, metadata := retrykafka.Commit(test.progress)
		assert.Equal(t, test.offset, offset)
		assert.Equal(t, test.metadata, metadata)
		assert.Equal(t, test.progress, retrykafka.ProgressOf(offset, &metadata))
	}
}

// Metadata of others, and none, says only that the records before the offset have ended.
func TestProgressOfOthers(t *testing.T) {
	t.Parallel()
	moved := `{"retry":[{"o":5}],"next":9}` // committed with another offset
	for _, metadata := range []*string{nil, new(string), &moved, new("kgo-1234"), new(`{"retry":[{"o":"x"}]}`), new(`{"next":50}`)} {
		assert.Equal(t, retrykafka.Progress{Next: 7}, retrykafka.ProgressOf(7, metadata))
	}
	assert.Equal(t, retrykafka.Progress{}, retrykafka.ProgressOf(-1, nil))
}

// Counts that cannot be are as many as can be, and stay exhausted.
func TestForgedProgress(t *testing.T) {
	t.Parallel()
	forged := `{"retry":[{"o":5,"s":"f=9223372036854775807 r=9223372036854775807 p=9223372036854775807"}],"next":9}`
	p := retrykafka.ProgressOf(5, &forged)
	want := retrykafka.StateText{Failures: 999_999, RateLimited: 999_999, Pending: 999_999}
	assert.Equal(t, []retrykafka.Mark{{Offset: 5, State: want}}, p.Marks)
	p.Marks[0].State.Failures++
	p.Marks[0].State.First = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, metadata := retrykafka.Commit(p)
	assert.Equal(t, []retrykafka.Mark{{Offset: 5, State: want}}, retrykafka.ProgressOf(5, &metadata).Marks)
}

// The largest metadata fits into what brokers take.
func TestLargestProgress(t *testing.T) {
	t.Parallel()
	p := retrykafka.Progress{Next: math.MaxInt64}
	for i := range int64(retrykafka.Most) {
		p.Marks = append(p.Marks, retrykafka.Mark{
			Offset: math.MaxInt64 - i, Due: math.MaxInt64 / int64(time.Millisecond), Running: true,
			State: retrykafka.StateText(retry.State{
				Failures: math.MaxInt, RateLimited: math.MaxInt, Pending: math.MaxInt,
				First: time.Date(2026, 11, 22, 9, 0, 0, 123456789, time.FixedZone("", 7200)),
			}),
		})
	}
	_, metadata := retrykafka.Commit(p)
	assert.LessOrEqual(t, len(metadata), 4096)
	assert.Equal(t, retrykafka.Most, strings.Count(metadata, "{")-1)
}

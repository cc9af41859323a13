package testkit_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var kinds = testkit.Kinds{
	Leaves: []func(byte) error{
		func(byte) error { return nil },
		func(byte) error { return io.EOF },
		func(detail byte) error { return fmt.Errorf("leaf %d", detail) },
	},
	Wraps: []func(byte, error) error{
		func(detail byte, cause error) error { return fmt.Errorf("wrap %d: %w", detail, cause) },
	},
}

func TestTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data []byte
		want string
	}{
		{nil, "<nil>"},
		{[]byte{0, 0}, "<nil>"},
		{[]byte{1}, "<nil>"}, // half a node
		{[]byte{1, 0, 2, 9}, "EOF"},
		{[]byte{5, 9}, "leaf 9"},
		{[]byte{76, 3, 'a', 'b', 'c', 'd'}, "abc"},
		{[]byte{79, 255, 'a'}, "a"},
		{[]byte{80, 4, 1, 0}, "wrap 4: EOF"},
		{[]byte{191, 4}, "wrap 4: %!w(<nil>)"},
		{[]byte{192, 0}, "<nil>"},
		{[]byte{192, 3, 1, 0, 0, 0, 80, 4, 2, 7}, "EOF\nwrap 4: leaf 7"},
		{[]byte{255, 7, 2, 1, 2, 2}, "leaf 1\nleaf 2"},
	} {
		tree := kinds.Tree(tt.data)
		assert.Equal(t, tt.want, fmt.Sprint(tree.Err()), "%v", tt.data)
	}
	tree := kinds.Tree([]byte{192, 2, 1, 0, 192, 2, 2, 1, 2, 2})
	assert.EqualError(t, tree.Reordered()["reversed"], "leaf 2\nleaf 1\nEOF")
}

// failure collects what a check finds.
type failure struct {
	testing.TB
	texts []string
}

func (*failure) Helper() {}

func (f *failure) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// TestCheck shows that every check can fail.
func TestCheck(t *testing.T) {
	t.Parallel()
	two := []byte{192, 2, 1, 0, 80, 4, 2, 7}
	calls := 0
	first := func(err error) retry.Verdict { // as the first leg says
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			err = many.Unwrap()[0]
		}
		return retry.Verdict{Category: fmt.Sprint(err)}
	}
	for _, tt := range []struct {
		name     string
		data     []byte
		classify func(error) retry.Verdict
		want     string
	}{
		{"repeatable", two, func(error) retry.Verdict { calls++; return retry.Verdict{Category: fmt.Sprint(calls)} }, "again: "},
		{"hint", two, func(error) retry.Verdict { return retry.Verdict{After: -1} }, "the hint is negative"},
		{"order", two, first, "reversed: "},
		{"nil", nil, func(error) retry.Verdict { return retry.Verdict{Class: retry.Final} }, "nil: "},
		{"repetition", two, func(err error) retry.Verdict {
			return retry.Verdict{Category: fmt.Sprint(len(fmt.Sprint(err)))}
		}, "twice: "},
		{"company", []byte{1, 0}, func(err error) retry.Verdict {
			if err == io.EOF {
				return retry.Verdict{Category: "eof"}
			}
			return retry.Verdict{}
		}, "in company: "},
		{"mark", two, func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} }, "marked: "},
	} {
		var f failure
		kinds.Tree(tt.data).Check(&f, tt.classify)
		found := slices.ContainsFunc(f.texts, func(text string) bool { return strings.HasPrefix(text, tt.want) })
		assert.True(t, found, "%s: %q", tt.name, f.texts)
	}
}

func TestRandom(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	testkit.Random(t, 2000, func(data []byte) {
		tree := kinds.Tree(data)
		tree.Check(t, retry.Classify)
		switch err := tree.Err(); {
		case err == nil:
			seen["nil"]++
		case errors.Is(err, io.EOF):
			seen["EOF"]++
		default:
			seen["other"]++
		}
	})
	for kind, n := range map[string]int{"nil": 100, "EOF": 100, "other": 100} {
		assert.Greater(t, seen[kind], n, kind)
	}
}

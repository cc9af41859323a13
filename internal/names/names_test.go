package names_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/names"
)

func same(name string) string { return name }

func TestNames(t *testing.T) {
	t.Parallel()
	n := names.New(2, "other", same)
	for _, tt := range []struct{ name, want string }{
		{"a", "a"},
		{"b\xff", "b\ufffd"},
		{strings.Repeat("x", 257), "other"},
		{"c", "other"},
		{"a", "a"},
		{"b\xff", "b\ufffd"},
	} {
		assert.Equal(t, tt.want, n.Of(tt.name))
	}
	assert.Equal(t, map[string]string{"a": "a", "b\ufffd": "b\ufffd", "other": "other"}, n.All())
}

func TestMostNames(t *testing.T) { //nolint:paralleltest // counts allocations
	n := names.New(0, "other", same)
	for i := range 1000 {
		n.Of(strconv.Itoa(i))
	}
	assert.Len(t, n.All(), 101)
	assert.Zero(t, testing.AllocsPerRun(10, func() { n.Of("7") }))
}

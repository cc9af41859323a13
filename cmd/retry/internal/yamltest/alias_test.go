package yamltest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// bomb is a short text with 9^levels values: every list has the list before it nine times.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("x0: &a0 [1]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "x%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

// TestAliases: no text takes memory out of proportion, whichever library reads it. It is not
// parallel, because it counts all allocations.
func TestAliases(t *testing.T) { //nolint:paralleltest // see above
	wide := "x0: &a0 [" + strings.Repeat("1, ", 2000) + "1]\n"
	tests := map[string]string{
		"lists in lists":    bomb(7),
		"a long list":       wide + "x1: [" + strings.Repeat("*a0, ", 2000) + "*a0]\n",
		"schedules":         wide + "overrides:\n" + schedules(1000),
		"itself":            "x0: &a0 [*a0, *a0]\n",
		"itself, in a key":  "x0: &a0 {b: *a0}\n",
		"itself, merged in": "x0: &a0\n  a: 1\n  <<: *a0\n",
	}
	for name, text := range tests {
		for _, l := range libraries {
			for _, v := range []any{&retry.Policy{}, &retrypolicies.Policies{}} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := l.unmarshal([]byte(text), v)
				runtime.ReadMemStats(&after)
				require.Error(t, err, "%s, %s", name, l.name)
				assert.Less(t, len(err.Error()), 10_000, "%s, %s", name, l.name)
				assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(64), "MB: %s, %s, %T", name, l.name, v)
			}
		}
	}
}

func schedules(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: {backoff: {schedule: *a0}}\n", i)
	}
	return b.String()
}

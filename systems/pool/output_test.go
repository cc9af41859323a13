package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// Nodes that run at once write whole lines, each with the name of its node, however the
// command cuts them up.
func TestNamesBeforeLines(t *testing.T) {
	t.Parallel()
	const command = "for i in 1 2 3 4 5 6 7 8 9; do printf 'from '; printf \"%s \" NAME; echo line $i; echo NAME error >&2; done; printf NAME"
	text := "nodes:\n"
	names := []string{"a", "bee", "a-long-name", "d"}
	for _, name := range names {
		text += "  - name: " + name + "\n    command: |\n      " + strings.ReplaceAll(command, "NAME", name) + "\n"
	}
	var out, audit dbtest.Output
	require.Equal(t, 0, run(t.Context(), []string{"run", "-config", write(t, text)}, &out, &audit))
	for _, name := range names {
		lines := regexp.MustCompile(`(?m)^`+name+` *\| (from `+name+` line \d|`+name+` error|`+name+`)$`).FindAllString(out.String(), -1)
		assert.Len(t, lines, 9+9+1, name)
	}
	assert.Equal(t, len(names)*19, strings.Count(out.String(), " | "))
}

// A line without an end does not fill the memory, and is not lost.
func TestLongLine(t *testing.T) {
	t.Parallel()
	var out dbtest.Output
	l := &lines{out: &out, node: "a"}
	for range 300 {
		n, err := l.Write([]byte(strings.Repeat("x", 10_000)))
		require.NoError(t, err)
		require.Equal(t, 10_000, n)
	}
	l.end()
	assert.Equal(t, 3_000_000, strings.Count(out.String(), "x"))
	assert.Greater(t, strings.Count(out.String(), "\n"), 30)
	assert.Len(t, l.kept, mostKept)
	assert.Less(t, cap(l.rest), 4*longestLine)
	l.end()
	assert.True(t, strings.HasSuffix(out.String(), "x\n"), "and no empty line")
}

package why_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/why"
)

var update = flag.Bool("update", false, "write the tables of docs/why.md")

const document = "../../../../docs/why.md"

// TestPage compares the tables of docs/why.md with what the code says.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	want, places := fill(t, string(text))
	assert.Len(t, places, len(why.Tables), "every table has a place, and every place a table")
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(lines) || line != lines[i] {
			assert.Fail(t, "docs/why.md is behind the code: in cmd/retry, go test ./internal/why -update",
				"line %d should be: %s", i+1, line)
			return
		}
	}
}

// fill returns the page with new tables, and the names of their places.
func fill(t *testing.T, text string) (filled string, places []string) {
	t.Helper()
	const begin, end = "<!-- table: ", "<!-- end -->"
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, begin)
		b.WriteString(before)
		if !ok {
			return b.String(), places
		}
		name, rest, ok := strings.Cut(rest, " -->\n")
		require.True(t, ok)
		require.Contains(t, why.Tables, name)
		_, text, ok = strings.Cut(rest, end)
		require.True(t, ok, name)
		places = append(places, name)
		b.WriteString(begin + name + " -->\n" + why.Tables[name]() + end)
	}
}

// TestStopsAreComplete walks the StopReasons of the library.
func TestStopsAreComplete(t *testing.T) {
	t.Parallel()
	explained := map[retry.StopReason]bool{}
	reasons := why.Reasons()
	for _, r := range reasons {
		assert.False(t, explained[r], r)
		explained[r] = true
	}
	n := 0
	for r := retry.StopNone + 1; !strings.HasPrefix(r.Error(), "none("); r++ {
		assert.True(t, explained[r], "%v is missing from stops", r)
		n++
	}
	assert.Len(t, reasons, n)
}

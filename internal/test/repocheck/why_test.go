package repocheck_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// TestWhyHasEveryText: a stranger who has the text of an error finds it in docs/why.md, and
// finds the page from where the text comes from.
func TestWhyHasEveryText(t *testing.T) {
	t.Parallel()
	page, names := read(t, "docs/why.md"), exported(t, ".")
	n := 0
	for r := retry.StopNone + 1; !strings.HasPrefix(r.Error(), "none("); r++ {
		n++
		row := regexp.MustCompile("\\| `retry\\.(Stop\\w+)`<br>`" + r.Error() + "` \\|").FindStringSubmatch(page)
		require.NotNil(t, row, "a row for %v", r)
		assert.Contains(t, names, row[1], "the name of %v", r)
		for _, cause := range []error{nil, context.Canceled, context.DeadlineExceeded} {
			if cause != nil && r != retry.StopCanceled && r != retry.StopDeadline {
				continue
			}
			text := (&retry.Error{Attempts: 2, Stop: r, RetryAfter: 3 * time.Hour, Cause: cause}).Error()
			_, reason, ok := strings.Cut(strings.TrimSuffix(text, ")"), "(")
			if !ok { // attempts and final have none
				reason = "failed after"
			}
			reason, _, _ = strings.Cut(reason, ": ") // the cause
			assert.Contains(t, page, reason, "%v: the page is without a text of the library; "+
				"add it to stops in cmd/retry/internal/why, and there go test . -update", r)
		}
	}
	assert.GreaterOrEqual(t, n, 10)
	for _, m := range regexp.MustCompile(`errors\.New\("retry: (.*)"\)`).FindAllStringSubmatch(read(t, "mark.go"), -1) {
		assert.Contains(t, page, m[1])
	}
}

func TestWhyIsLinked(t *testing.T) {
	t.Parallel()
	for file, link := range map[string]string{
		"README.md": "(docs/why.md)", "docs/README.md": "(why.md)", "docs/guide.md": "(why.md", "docs/command.md": "(why.md)",
		"errors.go": "docs/why.md explains every", "retryhttp/transport.go": "docs/why.md", "retryhttp/trip.go": "docs/why.md",
	} {
		assert.Contains(t, read(t, file), link, file)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../../../" + file)
	require.NoError(t, err)
	return string(text)
}

package site_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestSite builds the site without the playground, which has tests of its own, and looks
// for something in it, opened from the file system.
func TestSite(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "Hugo, which takes minutes to compile, and Chromium")
	dir := t.TempDir()
	hugo := exec.CommandContext(t.Context(), "go", "tool", "hugo", "--quiet", "--panicOnWarning", "--destination", dir)
	output, err := hugo.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "playground"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "playground", "index.html"), nil, 0o600))
	output, err = exec.CommandContext(t.Context(), "go", "run", "./check", dir).CombinedOutput()
	require.NoError(t, err, "%s", output)

	documents, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	require.Greater(t, len(documents), 10)
	for _, document := range documents {
		name := strings.TrimSuffix(filepath.Base(document), ".md")
		if name == "README" {
			name = "index"
		}
		assert.FileExists(t, filepath.Join(dir, "docs", name+".html"))
	}

	var problems []string
	listen := func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			problems = append(problems, e.ExceptionDetails.Text)
		}
	}
	options := append([]chromedp.ExecAllocatorOption{chromedp.NoSandbox}, chromedp.DefaultExecAllocatorOptions[:]...)
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	defer end()
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(listen))
	defer end()
	ctx, end = context.WithTimeout(ctx, 5*time.Minute)
	defer end()
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("file://"+filepath.Join(dir, "docs", "guide.html")),
		chromedp.SendKeys("#search", "retry-after"), chromedp.WaitVisible("#results a")))
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#results a")].map((a) => a.href)`))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(found[0]), chromedp.WaitVisible("main h1")))
	assert.Empty(t, problems)
}

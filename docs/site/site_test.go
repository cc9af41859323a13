//go:build site

package site_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSite looks for something in the site that `make site` has built, opened from the
// file system.
func TestSite(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../site")
	require.NoError(t, err)

	front, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	for _, pattern := range []string{"*.md", "evidence/*.md"} {
		documents, err := filepath.Glob("../" + pattern)
		require.NoError(t, err)
		require.Greater(t, len(documents), 5)
		for _, document := range documents {
			name, err := filepath.Rel("..", strings.TrimSuffix(document, ".md")+".html")
			require.NoError(t, err)
			if name == "README.html" {
				name = "index.html"
			}
			assert.FileExists(t, filepath.Join(dir, "docs", name))
			assert.Contains(t, string(front), "docs/"+filepath.ToSlash(name), "in the menu")
		}
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

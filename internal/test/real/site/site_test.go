//go:build site

package main_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestSite looks for something in the site that `make site` has built, opened from the
// file system.
func TestSite(t *testing.T) {
	t.Parallel()
	const docs = "../../../../docs/"
	dir := testkit.Must(filepath.Abs("../../../../site"))(t)

	front := testkit.Must(os.ReadFile(filepath.Join(dir, "index.html")))(t)
	for _, pattern := range []string{"*.md", "evidence/*.md"} {
		documents := testkit.Must(filepath.Glob(docs + pattern))(t)
		require.Greater(t, len(documents), 5)
		for _, document := range documents {
			name := testkit.Must(filepath.Rel(docs, strings.TrimSuffix(document, ".md")+".html"))(t)
			if name == "README.html" {
				name = "index.html"
			}
			assert.FileExists(t, filepath.Join(dir, "docs", name))
			assert.Contains(t, string(front), "docs/"+filepath.ToSlash(name), "in the menu")
		}
	}

	ctx := browser(t)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(page(dir, "docs/guide.html")),
		chromedp.SendKeys("#search", "retry-after"), chromedp.WaitVisible("#results a")))
	found := evaluate[[]string](t, ctx, `[...document.querySelectorAll("#results a")].map((a) => a.href)`)
	require.NotEmpty(t, found)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(found[0]), chromedp.WaitVisible("main h1")))

	// What a stranger looks for, and a word of the first three that are found.
	for words, heading := range map[string]string{
		"adapters": "Adapters", "gRPC": "retrygrpc", "websocket": "Forever, and until", "SKIP LOCKED": "Durable decisions", "budget": "Budgets",
		"max_attempts": "The form of a policy", "Kafka": "retrykafka", "idempotency key": "HTTP", "poll": "Choose",
	} {
		got := evaluate[[]string](t, ctx, `(() => { const field = document.getElementById("search"); field.value = `+"`"+words+"`"+`;
			field.dispatchEvent(new Event("input"));
			return [...document.querySelectorAll("#results a")].map((a) => a.textContent); })()`)
		assert.Contains(t, strings.Join(got, "\n"), heading, words)
	}
}

// looked has the words with which people come, by the page that they look for.
var looked = map[string][]string{
	"docs/recipes.html": {
		"oauth 401", "refresh token", "resume download", "upload in parts", "saga", "smtp",
		"poll until ready", "wait for a database", "kubernetes conflict", "pgbouncer", "dead letter",
		"webhook",
	},
	"docs/why.html": {
		"why only one attempt", "http_503", "sqlstate 40001", "budget exhausted", "failed after 3 attempts",
		"exit code 75", "connection refused", "retry after header", "idempotency key",
	},
	"docs/guide.html":     {"reconnect websocket", "skip locked", "zero policy defaults"},
	"docs/compose.html":   {"circuit breaker", "rate limiter", "hedge"},
	"adapters/index.html": {"kafka", "prometheus", "grpc streams"},
	"docs/testing.html":   {"fake clock", "synctest"},
	"docs/command.html":   {"pipe in a shell", "curl --retry"},
	"docs/policy.html":    {"yaml keys", "max_attempts unlimited"},
	"docs/migrate.html":   {"cenkalti backoff"},
	"docs/sdks.html":      {"aws sdk"},
	"docs/quota.html":     {"batch of prompts"},
	"docs/retryvet.html":  {"golangci-lint"},
	"docs/engines.html":   {"which engine"},
}

// TestSearch: what people look for is the first thing that they find.
func TestSearch(t *testing.T) {
	t.Parallel()
	dir := testkit.Must(filepath.Abs("../../../../site"))(t)
	ctx := browser(t)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(page(dir, "index.html")), chromedp.WaitVisible("#search")))
	phrases := 0
	for want, all := range looked {
		for _, phrase := range all {
			phrases++
			first := evaluate[string](t, ctx, `(() => { const field = document.getElementById("search"); field.value = `+strconv.Quote(phrase)+`;
				field.dispatchEvent(new Event("input"));
				return document.querySelector("#results a")?.href ?? "nothing"; })()`)
			first, _, _ = strings.Cut(first, "#")
			assert.Equal(t, page(dir, want), first, phrase)
		}
	}
	assert.GreaterOrEqual(t, phrases, 40)
}

// page returns the address of a page.
func page(dir, name string) string { return "file://" + filepath.Join(dir, filepath.FromSlash(name)) }

// browser returns a tab. A test fails if a page throws.
func browser(t *testing.T) context.Context {
	t.Helper()
	var problems []string
	listen := func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			problems = append(problems, e.ExceptionDetails.Text)
		}
	}
	options := append([]chromedp.ExecAllocatorOption{chromedp.NoSandbox}, chromedp.DefaultExecAllocatorOptions[:]...)
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(listen))
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(end)
	t.Cleanup(func() { assert.Empty(t, problems) })
	return ctx
}

func evaluate[T any](t *testing.T, ctx context.Context, script string) T { //nolint:revive // t comes first
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(t, err, script)
	return v
}

// TestLooks: wide and narrow, light and dark, axe finds nothing to complain about, nothing is wider
// than the window, and what scrolls can be reached by the keyboard. On a phone the menu is closed.
func TestLooks(t *testing.T) {
	t.Parallel()
	dir := testkit.Must(filepath.Abs("../../../../site"))(t)
	axe := testkit.Must(os.ReadFile(filepath.Join("../browsertest", "testdata", "axe.min.js")))(t)
	pages := testkit.Must(filepath.Glob(filepath.Join(dir, "docs", "*.html")))(t)
	ctx := browser(t)
	for _, look := range []struct {
		scheme string
		width  int64
		whole  bool // all pages, which takes a while
	}{{"light", 1280, true}, {"dark", 1280, false}, {"light", 390, false}, {"dark", 390, true}} {
		_, err := chromedp.Run(ctx, func(ctx context.Context, _ *chromedp.Target) (cdp.Empty, error) {
			return chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}},
			})
		})
		require.NoError(t, err)
		require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(look.width, 900)))
		few := []string{filepath.Join(dir, "index.html"), filepath.Join(dir, "adapters", "index.html")}
		if look.whole {
			few = append(few, pages...)
		}
		for _, name := range few {
			require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("file://"+name), chromedp.WaitVisible("main h1")))
			assert.Equal(t, look.width > 800, evaluate[bool](t, ctx, `document.querySelector(".pages details").open`))
			assert.LessOrEqual(t, evaluate[int64](t, ctx, `document.documentElement.scrollWidth`), look.width, name)
			assert.Empty(t, evaluate[[]string](t, ctx, `[...document.querySelectorAll("main .scroll, main pre")]
				.filter((e) => e.scrollWidth > e.clientWidth && (e.tabIndex < 0 || !e.ariaLabel)).map((e) => e.textContent)`), name)
			evaluate[int](t, ctx, string(axe)+"\n;0")
			assert.Empty(t, evaluate[string](t, ctx, `axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.map((v) =>
				v.id + ": " + v.help + "\n" + v.nodes.slice(0, 5).map((n) => n.html + "\n" + n.failureSummary).join("\n")).join("\n\n"))`), "%s, %v", name, look)
		}
	}
}

// Package browsertest tests the playground, and the page about jobs, in a browser.
package browsertest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/docs/playground"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var screenshots = flag.String("screenshots", "", "a `folder` for pictures of the page")

// The page is built once, and one browser shows all tabs.
var (
	folder string
	built  = sync.OnceValue(func() error { return playground.Build(context.Background(), folder) })

	chromium context.Context
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	folder = filepath.Join(dir, "page")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, endBrowser := chromedp.NewContext(allocator)
	defer endBrowser()
	chromium = ctx //nolint:fatcontext // one browser for all tests
	return m.Run()
}

var started = sync.OnceValue(func() error { return chromedp.Do(chromium) })

// served returns the address of a handler.
func served(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// static returns the address of the built page.
func static(t *testing.T) string {
	t.Helper()
	testkit.Needs(t, "Chromium")
	require.NoError(t, built())
	return served(t, playground.Files(folder))
}

// tab is a tab of the browser. Its test fails if the page writes an error on the console,
// or loads something from elsewhere.
type tab struct {
	t       *testing.T
	ctx     context.Context
	address string

	mu       sync.Mutex
	problems []string
	received float64                    // bytes
	inside   map[network.RequestID]bool // the requests of data that the page has itself
}

// open opens the playground at an address that begins with base, in a window of some width.
func open(t *testing.T, base, fragment string, width int64) *tab {
	t.Helper()
	p := visit(t, base, fragment, width)
	p.await(`document.body.dataset.ready`)
	return p
}

// visit opens a page.
func visit(t *testing.T, base, fragment string, width int64) *tab {
	t.Helper()
	testkit.Needs(t, "Chromium")
	require.NoError(t, started(), "Chromium: on Debian, apt-get install chromium")
	p := &tab{t: t, address: base, inside: map[network.RequestID]bool{}}
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.listen))
	t.Cleanup(end)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute) // a page that hangs
	t.Cleanup(stop)
	p.ctx = ctx
	p.run(chromedp.EmulateViewport(width, 900))
	call(p, network.Enable, network.EnableParams{})
	call(p, cdplog.Enable, cdp.Empty{})
	p.run(chromedp.Navigate(base + fragment))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.Empty(t, p.problems)
	})
	return p
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem("exception: %v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			problem("console: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError {
			problem("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		url := e.Request.URL
		p.inside[e.RequestID] = strings.HasPrefix(url, "blob:") || strings.HasPrefix(url, "data:")
		if !p.inside[e.RequestID] && !strings.HasPrefix(url, p.address) {
			problem("request: %s", url)
		}
	case *network.EventLoadingFinished:
		if !p.inside[e.RequestID] {
			p.received += e.EncodedDataLength
		}
	}
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// call calls the browser's protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	testkit.Must(chromedp.Run(p.ctx, func(ctx context.Context, _ *chromedp.Target) (R, error) { return chromedp.Call(ctx, command, params) }))(p.t)
}

// eval evaluates JavaScript, and awaits a promise.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, script)
	return v
}

// await waits until a condition holds in the page.
func (p *tab) await(condition string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("Boolean("+condition+")", chromedp.WithPollingTimeout(2*time.Minute)))
	require.NoError(p.t, err, condition)
}

func (p *tab) value(id string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.getElementById(%q).value`, id))
}

func (p *tab) text(id string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.getElementById(%q).textContent`, id))
}

// wait is the range of a wait that the page shows.
type wait struct{ Shortest, Longest float64 }

// rows returns the waits that the page shows.
func (p *tab) rows() []wait {
	p.t.Helper()
	return eval[[]wait](p, `[...document.querySelectorAll("#attempts tr")].map(({dataset: d}) => ({Shortest: +d.shortest, Longest: +d.longest}))`)
}

// change sets the value of a field, as somebody who pastes it, and awaits the picture or
// the error.
func (p *tab) change(id, value string) {
	p.t.Helper()
	text := testkit.Must(json.Marshal(value))(p.t)
	eval[bool](p, fmt.Sprintf(`(async () => {
		const drawn = () => performance.getEntriesByName("redraw").length;
		const before = drawn(), field = document.getElementById(%q), error = document.getElementById("error");
		error.textContent = "";
		field.value = %s;
		field.dispatchEvent(new Event("input", { bubbles: true }));
		while (drawn() === before && !error.textContent) await new Promise((resolve) => setTimeout(resolve));
		return true;
	})()`, id, text))
}

// choose chooses an option.
func (p *tab) choose(id, value string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(() => {
		const field = document.getElementById(%q);
		field.value = %q;
		return field.dispatchEvent(new Event("input"));
	})()`, id, value))
}

// picture returns what is drawn in an element.
func (p *tab) picture(id string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector("#%s canvas").toDataURL()`, id))
}

// dark makes the browser prefer dark pages.
func (p *tab) dark() {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	p.await(`matchMedia("(prefers-color-scheme: dark)").matches`)
}

// settled waits until everything is drawn.
func (p *tab) settled() {
	p.t.Helper()
	p.await(`document.querySelector("#storm-lines td") && document.getElementById("clients-text").textContent`)
}

// show shows a picture, on a phone.
func (p *tab) show(picture string) {
	p.t.Helper()
	p.run(chromedp.Click(fmt.Sprintf(`.choice label:has([value="%s"])`, picture)))
	p.await(fmt.Sprintf(`document.querySelector("#%s .uplot canvas")`, picture))
	p.await(`document.documentElement.style.getPropertyValue("--pictures") === document.getElementById("pictures").offsetHeight + "px"`)
}

// screenshot writes a picture of the whole page, to be looked at.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	p.settled()
	p.shoot(name)
}

// shoot is screenshot for a page that is ready.
func (p *tab) shoot(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	image := testkit.Must(chromedp.Run(p.ctx, chromedp.FullScreenshot(100)))(p.t)
	require.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), image, 0o600))
}

package browsertest_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// jobsPage starts the example with the page of package tablepage, and returns its address.
func jobsPage(t *testing.T) string {
	t.Helper()
	testkit.Needs(t, "Chromium")
	program := filepath.Join(t.TempDir(), "page")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./page")
	build.Dir = "../../../../examples/tables"
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	serve := exec.CommandContext(t.Context(), program)
	lines := testkit.Must(serve.StdoutPipe())(t)
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	return strings.TrimSpace(testkit.Must(bufio.NewReader(lines).ReadString('\n'))(t))
}

// The page about jobs is readable on a phone and on a desk, in the light and in the dark, and axe
// finds nothing to complain about.
func TestJobsPageLooks(t *testing.T) {
	t.Parallel()
	axe := testkit.Must(os.ReadFile(filepath.Join("testdata", "axe.min.js")))(t)
	address := jobsPage(t)
	for name, look := range map[string]struct {
		width int64
		dark  bool
	}{"jobs-light": {1600, false}, "jobs-dark": {1600, true}, "jobs-narrow-light": {390, false}, "jobs-narrow-dark": {390, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := visit(t, address, "", look.width)
			if look.dark {
				p.dark()
			}
			p.await(`document.querySelector(".dead b").textContent === "48"`) // it is live
			for _, screen := range []struct{ name, query string }{
				{"", ""},
				{"-dead", "?table=jobs&status=dead"},
				{"-job", "?table=jobs&id=7"},
				{"-none", "?table=jobs&id=seven"},
				{"-question", "?table=jobs&status=dead&do=try+again"},
				{"-end", "?table=jobs&id=7&do=end"},
			} {
				if screen.query != "" {
					p.run(chromedp.Navigate(address + screen.query))
				}
				p.arrive(`document.readyState === "complete"`)
				p.shoot(name + screen.name)
				eval[any](p, `document.querySelectorAll("details").forEach((d) => (d.open = true))`)
				eval[any](p, string(axe)+"\n;0")
				violations := eval[string](p, `axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.map((v) =>
					v.id + ": " + v.help + "\n" + v.nodes.map((n) => n.html + "\n" + n.failureSummary).join("\n")).join("\n\n"))`)
				assert.Empty(t, violations, screen.query)
				assert.LessOrEqual(t, eval[int64](p, `document.documentElement.scrollWidth`), look.width, screen.query)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.problems = without(p.problems, "400 (Bad Request)") // the ID that is none
		})
	}
}

// arrive waits until a condition holds. While the page changes, there is nothing to ask.
func (p *tab) arrive(condition string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		return err == nil && is
	}, time.Minute, 50*time.Millisecond, condition)
}

// without leaves out what is expected.
func without(problems []string, text string) (rest []string) {
	for _, problem := range problems {
		if !strings.Contains(problem, text) {
			rest = append(rest, problem)
		}
	}
	return rest
}

// Whoever has no mouse tries the jobs of a group again: from link to link, each of which shows that it
// has the focus.
func TestJobsPageByKeyboard(t *testing.T) {
	t.Parallel()
	p := visit(t, jobsPage(t), "", 1280)
	p.await(`document.querySelector(".dead b").textContent === "48"`)
	press := func(label string) {
		t.Helper()
		for range 60 {
			p.run(chromedp.KeyEvent("\t"))
			if strings.HasPrefix(eval[string](p, `document.activeElement.textContent.trim()`), label) {
				assert.NotEqual(t, "none", eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`))
				p.run(chromedp.KeyEvent("\r"))
				return
			}
		}
		require.Fail(t, "nothing to press", label)
	}
	press("550 no such mailbox")
	p.arrive(`location.search.includes("category=no_mailbox") && document.readyState === "complete"`)
	assert.EqualValues(t, 12, eval[int64](p, `document.querySelectorAll("tbody tr").length`))
	press("try again all of these")
	p.arrive(`document.querySelector("h1").textContent === "try again: 12 jobs"`)
	press("try again")
	p.arrive(`document.querySelector(".changed")?.textContent === "12 jobs changed."`)
}

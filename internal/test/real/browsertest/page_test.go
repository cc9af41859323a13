package browsertest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/docs/playground"
)

// random returns a policy in its JSON form.
func random(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	return fmt.Sprintf(`{"max_attempts": %d, "backoff": %s, "jitter": %s, "max_delay": "1m"}`, 2+r.IntN(12),
		strings.ReplaceAll(pick(
			`{"exponential": {"initial": "INITIAL", "multiplier": 1.5}}`, `{"linear": {"initial": "INITIAL", "step": "1s"}}`,
			`{"fibonacci": {"initial": "INITIAL"}}`, `{"constant": "INITIAL"}`, `{"schedule": ["INITIAL", "2s", "1m"]}`,
		), "INITIAL", fmt.Sprintf("%dms", 1+r.IntN(5000))),
		pick(`"full"`, `"equal"`, `"none"`, `{"proportional": 0.3}`, `{"plus_minus": "20ms"}`))
}

// check compares the page with the library.
func check(t *testing.T, p *tab, policy *retry.Policy) {
	t.Helper()
	rows := p.rows()
	require.Len(t, rows, policy.MaxAttempts)
	for i, row := range rows[1:] {
		shortest, longest := policy.Bounds(i + 1)
		require.Equal(t, wait{shortest.Seconds(), longest.Seconds()}, row, "%v, retry %d", policy, i+1)
	}
	require.Equal(t, policy.String(), p.text("text"))
}

// TestWaits: what the page shows of 100 policies is what the library says, in the
// browser, in the command that shows the page, and opened from the file system.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		policies int
		base     func(t *testing.T) string
	}{
		"WebAssembly": {100, static},
		"command":     {10, func(t *testing.T) string { t.Helper(); return served(t, playground.Handler()) }},
		"file": {10, func(t *testing.T) string {
			t.Helper()
			static(t)
			return "file://" + folder + "/"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := of.base(t)
			if name == "file" {
				base += "index.html"
			}
			p := open(t, base, "", 1280)
			p.address = strings.TrimSuffix(base, "index.html")
			p.problems = slices.DeleteFunc(p.problems, func(problem string) bool {
				return strings.HasPrefix(problem, "request: "+p.address)
			})
			r := rand.New(rand.NewPCG(16, 2))
			for range of.policies {
				text := random(r)
				var policy retry.Policy
				require.NoError(t, json.Unmarshal([]byte(text), &policy))
				p.change("json", text)
				check(t, p, &policy)
			}
			p.await(`document.querySelector("#storm-lines td") && document.querySelector("#clients canvas")`)
			assert.Contains(t, p.text("clients-text"), "1,000")
		})
	}
}

// TestDrag: the page follows a slider while it is dragged.
func TestDrag(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	box := eval[[]float64](p, `(() => { const b = document.getElementById("max_attempts_range").getBoundingClientRect();
		return [b.left, b.top + b.height / 2, b.width]; })()`)
	at := func(share float64) (x, y float64) { return box[0] + 8 + share*(box[2]-16), box[1] }
	mouse := func(kind input.DispatchMouseEventType, share float64) {
		x, y := at(share)
		p.run(chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft))
	}
	start := 2. / 11 // 3 of 1 to 12
	before, beforePicture := p.rows(), p.picture("waits")
	mouse(input.DispatchMouseEventTypeMousePressed, start)
	for _, share := range []float64{0.3, 0.5, 0.7} {
		mouse(input.DispatchMouseEventTypeMouseMoved, share)
	}
	p.await(`document.getElementById("max_attempts").value === "9" && JSON.parse(document.getElementById("json").value).max_attempts === 9`)
	assert.Len(t, p.rows(), 9, "before it is let go")
	assert.NotEqual(t, beforePicture, p.picture("waits"))
	assert.Len(t, before, 3)
	mouse(input.DispatchMouseEventTypeMouseMoved, 1)
	mouse(input.DispatchMouseEventTypeMouseReleased, 1)
	p.await(`document.getElementById("max_attempts").value === "12"`)
	check(t, p, &retry.Policy{MaxAttempts: 12})
}

// TestType: the form, the three texts and the address follow each other.
func TestType(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.run(chromedp.SendKeys("#initial", "250ms"))
	p.await(`document.getElementById("text").textContent.includes("250ms")`)
	assert.JSONEq(t, `{"backoff": {"exponential": {"initial": "250ms"}}}`, p.value("json"))
	assert.Equal(t, "backoff:\n  exponential:\n    initial: 250ms\n", p.value("yaml"))
	assert.Equal(t, "retry.Policy{\n\tBackoff: retry.Exponential{Initial: 250 * time.Millisecond},\n}", p.value("go"))
	assert.Contains(t, p.text("code"), "250 * time.Millisecond")

	p.run(chromedp.Click("#tab-yaml"))
	eval[string](p, `document.getElementById("yaml").value = ""`)
	p.run(chromedp.SendKeys("#yaml", "# quick\nmax_attempts: 5\njitter: none"))
	p.await(`document.getElementById("jitter").value === "none"`)
	check(t, p, &retry.Policy{MaxAttempts: 5, Jitter: retry.NoJitter})
	assert.JSONEq(t, `{"max_attempts": 5, "jitter": "none"}`, p.value("json"))
	assert.Contains(t, p.value("yaml"), "# quick", "what is being typed is left alone")

	p.run(chromedp.Click("#tab-go"))
	p.change("go", "policy := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(2 * time.Second)}")
	check(t, p, &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(2e9)})
	assert.Equal(t, "max_attempts: 4\nbackoff:\n  constant: 2s\n", p.value("yaml"))
	assert.Equal(t, "constant", p.value("kind"))
	assert.Equal(t, "2s", p.value("initial"))

	p.choose("use", "command")
	assert.Equal(t, "cat > policy.yaml <<'END'\nmax_attempts: 4\nbackoff:\n  constant: 2s\nEND\nretry -p policy.yaml curl -fsS https://example.com", p.text("code"))
}

// TestCopy: each form of the policy can be copied, and the page leads to the documents.
func TestCopy(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	eval[any](p, `navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }`)
	p.change("json", `{"max_attempts": 4}`)
	for _, form := range []struct{ id, name, text string }{
		{"json", "JSON", "{\n  \"max_attempts\": 4\n}"}, {"yaml", "YAML", "max_attempts: 4\n"}, {"go", "Go", "retry.Policy{\n\tMaxAttempts: 4,\n}"},
	} {
		p.run(chromedp.Click("#tab-" + form.id))
		assert.Equal(t, "Copy "+form.name, p.text("copy-text"))
		if form.id == "json" { // what was typed is left alone
			p.change("max_attempts", "4")
		}
		p.run(chromedp.Click("#copy-text"))
		p.await(`document.getElementById("copied-text").textContent === "Copied."`)
		assert.Equal(t, form.text, eval[string](p, "window.copied"))
	}
	links := eval[[]string](p, `[...document.querySelectorAll("header a")].map((a) => a.href)`)
	assert.Contains(t, links, "https://github.com/seed-5ff3c98e/retry/blob/main/docs/policy.md")
}

// TestInvalid: an error is clear, and the old picture stays.
func TestInvalid(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.change("json", `{"max_attempts": 7}`)
	rows, picture, hash := p.rows(), p.picture("waits"), eval[string](p, "location.hash")
	for _, tt := range []struct{ id, text, says string }{
		{"json", `{"max_attempts": 0, "jiter": 1}`, "max_attempts: 0: must be at least 1"},
		{"json", `{"max_attempts": 0, "jiter": 1}`, "jiter: 1: unknown key; did you mean jitter?"},
		{"json", `{"max_attempts": `, "unexpected end"},
		{"yaml", "max_attempts: 0\n", "max_attempts: 0: must be at least 1"},
		{"yaml", "a: [\nb: }", "YAML: 2:"},
		{"go", "retry.Policy{MaxAttempts: many}", "1:27: must be a constant"},
		{"go", "retry.Policy{MaxAttempts: 3", "1:28: missing ','"},
		{"initial", "soon", `backoff.exponential.initial: "soon": must be a duration`},
	} {
		p.change(tt.id, tt.text)
		assert.Contains(t, p.text("error"), tt.says)
		assert.Equal(t, rows, p.rows(), tt.text)
		assert.Equal(t, picture, p.picture("waits"), tt.text)
		assert.Equal(t, hash, eval[string](p, "location.hash"))
		if tt.id != "initial" {
			assert.Equal(t, "true", eval[string](p, fmt.Sprintf(`document.getElementById(%q).getAttribute("aria-invalid")`, tt.id)))
		}
	}
	p.change("json", `{"max_attempts": 2}`)
	assert.Empty(t, p.text("error"))
	assert.Len(t, p.rows(), 2)
}

// TestLateAnswer: the answer about a text that was valid a moment ago does not erase the
// error of the text that is there now.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.change("json", `{"max_attempts": 7}`)
	eval[string](p, `(async () => {
		const yaml = document.getElementById("yaml");
		for (yaml.value of ["max_attempts: 9", "a: [\nb: }"]) yaml.dispatchEvent(new Event("input"));
		await ask("plan", "{}");
		await new Promise((resolve) => setTimeout(resolve));
		return "";
	})()`)
	assert.Contains(t, p.text("error"), "YAML: 2:")
	assert.Len(t, p.rows(), 7)
}

// TestPermalink: the address has the policy, and brings it back.
func TestPermalink(t *testing.T) {
	t.Parallel()
	base := static(t)
	p := open(t, base, "", 1280)
	r := rand.New(rand.NewPCG(16, 3))
	for range 3 {
		text := random(r)
		var policy retry.Policy
		require.NoError(t, json.Unmarshal([]byte(text), &policy))
		p.change("json", text)
		again := open(t, base, eval[string](p, "location.hash"), 1280)
		check(t, again, &policy)
		assert.Equal(t, p.value("yaml"), again.value("yaml"))
		assert.Equal(t, p.value("go"), again.value("go"))
		eval[any](again, `location.hash = "#" + encodeURIComponent('{"max_attempts": 6}')`)
		again.await(`document.querySelectorAll("#attempts tr").length === 6`)
	}
	for fragment, says := range map[string]string{
		"#" + url.PathEscape(`{"max_attempts": 0}`): "max_attempts: 0: must be at least 1",
		"#%": "invalid character",
	} {
		wrong := open(t, base, fragment, 1280)
		assert.Contains(t, wrong.text("error"), says)
		check(t, wrong, &retry.Policy{MaxAttempts: 3})
	}
}

// TestPresets: they are side by side, and can be started from.
func TestPresets(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	assert.Equal(t, 8, eval[int](p, `document.querySelectorAll("#presets li").length`))
	p.run(chromedp.Click(`button[aria-label="Start from this: gRPC"]`))
	p.await(`JSON.parse(document.getElementById("json").value).max_delay === "2m0s"`)
	assert.Equal(t, "gRPC", p.value("preset"))
	p.choose("outage", "30")
	p.await(`document.getElementById("clients-text").textContent.includes("back after 30 s")`)
	p.await(`document.querySelector("#presets li:nth-child(8) .numbers").textContent.includes("None gets through")`)
}

// TestPresetsAreNotCovered: the form, which stays in view beside the pictures, ends with them.
func TestPresetsAreNotCovered(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.settled()
	covered := eval[[]string](p, `(() => {
		document.querySelector(".presets").scrollIntoView();
		return [...document.querySelectorAll(".presets h2, .presets h3")].filter((e) => {
			const { left, top } = e.getBoundingClientRect();
			return top < innerHeight && document.elementFromPoint(left + 5, top + 5) !== e;
		}).map((e) => e.textContent);
	})()`)
	assert.Empty(t, covered)
}

// TestKeyboard: everything can be reached and used without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	focused := func() string { return eval[string](p, `document.activeElement.id || document.activeElement.tagName`) }
	reached := map[string]bool{}
	for range 60 {
		p.run(chromedp.KeyEvent(kb.Tab))
		reached[focused()] = true
	}
	for _, id := range []string{"preset", "max_attempts", "max_attempts_range", "kind", "initial", "jitter", "tab-json", "json", "SUMMARY", "outage", "fault", "use", "copy", "code", "BUTTON"} {
		assert.True(t, reached[id], id)
	}
	p.run(chromedp.Focus("#max_attempts_range"), chromedp.KeyEvent(kb.ArrowRight+kb.ArrowRight))
	p.await(`document.querySelectorAll("#attempts tr").length === 5`)
	p.run(chromedp.Focus("#tab-json"), chromedp.KeyEvent(kb.ArrowRight))
	assert.Equal(t, "tab-yaml", focused())
	p.run(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "yaml", focused())
	p.run(chromedp.Focus("#tab-yaml"), chromedp.KeyEvent(kb.ArrowLeft+kb.ArrowLeft))
	assert.Equal(t, "tab-go", focused())
}

// pictures are the cards of which a phone shows one.
var pictures = []string{"waits-card", "clients-card", "storm-card"}

// TestPhone: whatever is changed, the picture that shows it is seen too, whole, wherever
// the page was scrolled to before.
func TestPhone(t *testing.T) {
	t.Parallel()
	base := static(t)
	for _, size := range [][2]int64{{390, 844}, {390, 664}, {360, 640}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			p := open(t, base, "", size[0])
			p.run(chromedp.EmulateViewport(size[0], size[1]))
			p.settled()
			eval[any](p, `document.querySelectorAll("details").forEach((d) => (d.open = true))`)
			for _, picture := range pictures {
				p.show(picture)
				for _, editor := range []string{"json", "yaml", "go"} {
					p.run(chromedp.Click("#tab-" + editor))
					seen := eval[[]string](p, fmt.Sprintf(`[0, document.documentElement.scrollHeight].flatMap((from) =>
						[...document.querySelectorAll(".policy :is(input, select, textarea), #%[1]s select")].filter((control) => control.checkVisibility()).map((control) => {
							scrollTo(0, from);
							control.scrollIntoView({ block: "nearest" });
							const { left, top, right, bottom } = control.getBoundingClientRect();
							const whole = (e) => { const box = e.getBoundingClientRect(); return box.height > 90 && box.top >= 0 && box.bottom <= innerHeight; };
							const free = [top + 1, bottom - 1].every((y) => document.elementFromPoint((left + right) / 2, y) === control);
							const plots = [...document.querySelectorAll("#%[1]s .plot")];
							return (free && plots.length && plots.every(whole) ? "" : "hidden: ") + control.id;
						}))`, picture))
					assert.GreaterOrEqual(t, len(seen), 2*18)
					for _, control := range seen {
						assert.NotContains(t, control, "hidden", "%s, %s", picture, editor)
					}
				}
			}
			assert.True(t, eval[bool](p, `(() => { document.getElementById("use").scrollIntoView();
				return document.getElementById("code").getBoundingClientRect().bottom <= innerHeight; })()`), "and the code")
			p.run(chromedp.EmulateViewport(320, size[1]))
			p.await(`innerWidth === 320 && document.documentElement.scrollWidth <= 320`) // it is drawn anew later
		})
	}
}

// TestKeys: whatever the policy, every plot says what its lines are, and every line has
// its numbers.
func TestKeys(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.settled()
	for _, preset := range eval[[]string](p, `compared.map(({ name }) => name)`) {
		eval[string](p, `document.getElementById("storm-text").textContent = ""`)
		p.choose("preset", preset)
		p.await(`document.getElementById("storm-text").textContent`)
		texts := eval[[]string](p, `[...document.querySelectorAll(".key, caption, th, td, .u-legend, legend")].map((e) => e.textContent.trim())`)
		assert.Greater(t, len(texts), 3+2*4)
		for _, text := range texts {
			assert.NotContains(t, []string{"", "-", "--"}, strings.TrimRight(text, ": "), preset)
		}
		assert.Equal(t, 7, eval[int](p, `[...document.querySelectorAll(".line")].filter((e) => e.offsetWidth > 20).length`), preset)
	}
}

// TestDefaultStorm: the picture that is there first shows what a budget is for.
func TestDefaultStorm(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.settled()
	assert.Contains(t, p.text("storm-text"), "Without a budget, the retries keep the service down. With one, it is well again")
	assert.Equal(t, []string{"with a budget", "without a budget", "no retries"},
		eval[[]string](p, `[...document.querySelectorAll("#storm-lines tbody th")].map((e) => e.textContent)`))
	assert.Contains(t, eval[string](p, `document.querySelector("#storm-lines tr:nth-child(2)").textContent`), "not in 60 s")
}

// TestBacklog: jobs that share a Quota are refused far less often, behind any limit.
func TestBacklog(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.await(`document.querySelector("#backlog td")`)
	assert.Regexp(t, `hint9,500 times39.* s.*Quota\d\d times3\d.* s`, p.text("backlog"))
	p.choose("limit", "10 1")
	p.await(`!document.getElementById("backlog").textContent.includes("hint9,500 times")`)
}

// TestLooks: light and dark, wide and narrow, axe finds nothing to complain about, every
// picture has a text, and nothing is wider than the window.
func TestLooks(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(filepath.Join("testdata", "axe.min.js"))
	require.NoError(t, err)
	base := static(t)
	for name, look := range map[string]struct {
		width int64
		dark  bool
	}{"wide-light": {1280, false}, "wide-dark": {1280, true}, "narrow-light": {390, false}, "narrow-dark": {390, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, base, "#"+url.PathEscape(`{"max_attempts": 6, "jitter": "equal"}`), look.width)
			p.settled()
			drawn := []string{"waits", "clients", "load", "presets"}
			if look.width < 800 { // one at a time
				drawn = []string{"waits", "presets"}
			}
			if look.dark {
				light := make([]string, len(drawn))
				for i, id := range drawn {
					light[i] = p.picture(id)
				}
				background := `getComputedStyle(document.body).backgroundColor`
				white := eval[string](p, background)
				p.dark()
				assert.NotEqual(t, white, eval[string](p, background))
				for i, id := range drawn { // they are drawn one frame later
					assert.Eventually(t, func() bool { return p.picture(id) != light[i] }, time.Minute, 50*time.Millisecond, id)
				}
			}
			p.screenshot(name)
			if look.width < 800 {
				for _, picture := range pictures {
					p.show(picture)
					p.screenshot(name + "-" + picture)
				}
			}
			eval[any](p, `document.querySelectorAll("details").forEach((d) => (d.open = true))`)
			eval[any](p, string(axe)+"\n;0")
			for _, editor := range []string{"json", "yaml", "go"} {
				p.run(chromedp.Click("#tab-" + editor))
				violations := eval[string](p, `axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.map((v) =>
					v.id + ": " + v.help + "\n" + v.nodes.map((n) => n.html + "\n" + n.failureSummary).join("\n")).join("\n\n"))`)
				assert.Empty(t, violations)
			}
			assert.LessOrEqual(t, eval[int64](p, `document.documentElement.scrollWidth`), look.width)
			texts := eval[[]string](p, `[...document.querySelectorAll('[role="img"]')].map((e) => e.ariaLabel || document.getElementById(e.getAttribute("aria-labelledby")).textContent)`)
			assert.Len(t, texts, 12)
			for _, text := range texts {
				assert.Greater(t, len(text), 40, text)
			}
		})
	}
}

// TestWeight: what goes over the wire is small. How long the pictures take is in the
// log, because it depends on the machine.
func TestWeight(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	p.mu.Lock()
	received := p.received
	p.mu.Unlock()
	assert.Greater(t, received, 500e3, "the library is in it")
	assert.LessOrEqual(t, received, 2e6)
	for n := range 30 {
		p.change("max_attempts", fmt.Sprint(2+n%11))
	}
	first := eval[float64](p, `performance.getEntriesByName("first picture")[0].startTime`)
	redraws := eval[[]float64](p, `performance.getEntriesByName("redraw").map((e) => e.duration)`)
	slices.Sort(redraws)
	t.Logf("%.2f MB over the wire; the first picture after %.0f ms; %d redraws: the median took %.1f ms, the longest %.1f ms",
		received/1e6, first, len(redraws), redraws[len(redraws)/2], redraws[len(redraws)-1])
}

// TestSimulationIsElsewhere: a redraw does not wait for a simulation.
func TestSimulationIsElsewhere(t *testing.T) {
	t.Parallel()
	p := open(t, static(t), "", 1280)
	got := eval[[]string](p, `(async () => {
		const ask = await library, order = [];
		const storm = ask("storm", "{}", "stall").then(() => order.push("storm"));
		await ask("plan", "{}").then(() => order.push("plan"));
		await storm;
		return order;
	})()`)
	assert.Equal(t, []string{"plan", "storm"}, got)
}

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const rawFolder = "../raw"

var once = sync.OnceValues(func() (map[string][]byte, error) { return generate(rawFolder) })

func generated(t *testing.T) map[string][]byte {
	t.Helper()
	return testkit.Must(once())(t)
}

// The committed files are what the command makes, and it makes them again.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	files := generated(t)
	again := testkit.Must(generate(rawFolder))(t)
	assert.Len(t, files, 2*len(pictures)+2*len(diagrams)+2)
	for name, content := range files {
		assert.True(t, bytes.Equal(content, again[name]), "%s is another one every time", name)
		if runtime.GOARCH != "amd64" {
			continue // floats are rounded in other places
		}
		committed := testkit.Must(os.ReadFile(filepath.Join("../../docs", name)))(t)
		assert.True(t, bytes.Equal(committed, content), "docs/%s: go run ./plots writes it anew", name)
	}
}

// textBox is a text and the place it takes.
type textBox struct {
	text                     string
	left, right, top, bottom float64
}

func (a textBox) overlaps(b textBox) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

var textElement = regexp.MustCompile(
	`(?s)<text textLength="([\d.]+)" lengthAdjust="spacingAndGlyphs" x="([-\d.e]+)" y="-([-\d.e]+)"[^>]*font-size:([\d.]+)px[^>]*>([^<]*)</text>`)

func textBoxes(t *testing.T, svg []byte) []textBox {
	t.Helper()
	var boxes []textBox
	for _, m := range textElement.FindAllSubmatch(svg, -1) {
		var n [4]float64
		for i := range n {
			var err error
			n[i], err = strconv.ParseFloat(string(m[i+1]), 64)
			require.NoError(t, err)
		}
		length, x, y, size := n[0], n[1], n[2], n[3]
		boxes = append(boxes, textBox{string(m[5]), x, x + length, -y - 0.75*size, -y + 0.2*size})
	}
	require.Len(t, boxes, bytes.Count(svg, []byte("<text ")), "a text of another form")
	return boxes
}

// No text is cut off, none lies on another, and none needs a font of its own.
func TestTexts(t *testing.T) {
	t.Parallel()
	for name, svg := range generated(t) {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		wellFormed(t, name, svg)
		assert.NotContains(t, string(svg), "font-family:", name)
		assert.Contains(t, string(svg), "sans-serif", name)
		var width, height float64
		testkit.Must(fmt.Sscanf(string(regexp.MustCompile(`viewBox="[^"]*"`).Find(svg)), `viewBox="0 0 %g %g"`, &width, &height))(t)
		boxes := textBoxes(t, svg)
		assert.Greater(t, len(boxes), 10, name)
		for i, box := range boxes {
			const rounding = 0.1
			assert.True(t, box.left >= 0 && box.right <= width+rounding && box.top >= -height && box.bottom <= rounding,
				"%s: cut off: %+v", name, box)
			for _, other := range boxes[:i] {
				assert.False(t, box.overlaps(other), "%s: %+v lies on %+v", name, box, other)
			}
		}
	}
}

var linePath = regexp.MustCompile(`<path d="M([-\d.,L]+)" style="fill:none;stroke:`)

// lines returns the points of the lines of a picture, in the coordinates of its texts.
func lines(t *testing.T, svg []byte) (all [][][2]float64) {
	t.Helper()
	for _, m := range linePath.FindAllSubmatch(svg, -1) {
		var points [][2]float64
		for point := range strings.SplitSeq(string(m[1]), "L") {
			var x, y float64
			testkit.Must(fmt.Sscanf(point, "%g,%g", &x, &y))(t)
			points = append(points, [2]float64{x, -y})
		}
		all = append(all, points)
	}
	return all
}

// crosses reports whether a line goes through the text.
func (a textBox) crosses(from, to [2]float64) bool {
	const steps = 200
	for i := range steps + 1 {
		part := float64(i) / steps
		x, y := from[0]+part*(to[0]-from[0]), from[1]+part*(to[1]-from[1])
		if a.left < x && x < a.right && a.top < y && y < a.bottom {
			return true
		}
	}
	return false
}

// No line goes through a text.
func TestLines(t *testing.T) {
	t.Parallel()
	for name, svg := range generated(t) {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		boxes := textBoxes(t, svg)
		for _, points := range lines(t, svg) {
			for i := range points[1:] {
				for _, box := range boxes {
					assert.False(t, box.crosses(points[i], points[i+1]), "%s: a line goes through %q", name, box.text)
				}
			}
		}
	}
	box := textBox{"x", 10, 20, 10, 20}
	assert.True(t, box.crosses([2]float64{15, 0}, [2]float64{15, 30}))
	assert.False(t, box.crosses([2]float64{25, 0}, [2]float64{25, 30}))
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err, name)
	}
}

// Text has 9 pixels or more on a phone, which is 390 pixels wide, with a margin of 16.
func TestOnAPhone(t *testing.T) {
	t.Parallel()
	for name, svg := range generated(t) {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		assert.Contains(t, string(svg), fmt.Sprintf(`viewBox="0 0 %d `, width), name)
		sizes := regexp.MustCompile(`font-size:([\d.]+)px`).FindAllSubmatch(svg, -1)
		require.NotEmpty(t, sizes, name)
		for _, m := range sizes {
			size := testkit.Must(strconv.ParseFloat(string(m[1]), 64))(t)
			assert.GreaterOrEqual(t, size*(390-2*16)/width, 9.0, name)
		}
	}
}

// Text can be read on the page that it is for: WCAG 2 asks for a contrast of 4.5.
func TestContrast(t *testing.T) {
	t.Parallel()
	pages := map[string]color.NRGBA{"light": rgb(0xffffff), "dark": rgb(0x0d1117)}
	require.Len(t, themes, len(pages))
	for _, theme := range themes {
		for _, text := range []color.NRGBA{theme.ink, theme.muted, theme.ours, theme.worse} {
			a, b := luminance(text), luminance(pages[theme.name])
			contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05)
			assert.GreaterOrEqual(t, contrast, 4.5, "%s: %v", theme.name, text)
		}
	}
}

func luminance(c color.NRGBA) float64 {
	linear := func(v uint8) float64 {
		if s := float64(v) / 0xff; s > 0.04045 {
			return math.Pow((s+0.055)/1.055, 2.4)
		}
		return float64(v) / 0xff / 12.92
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// The documents show every picture, and nothing that is not there.
func TestPages(t *testing.T) {
	t.Parallel()
	files := generated(t)
	shown := map[string]bool{}
	for _, pattern := range []string{"*.md", "evidence/*.md"} {
		documents := testkit.Must(filepath.Glob("../../docs/" + pattern))(t)
		require.NotEmpty(t, documents)
		for _, document := range documents {
			text := testkit.Must(os.ReadFile(document))(t)
			for _, m := range regexp.MustCompile(`(?:src|srcset)="(?:\.\./)?([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
				if strings.HasPrefix(m[1], "page-") { // of a program, and not a plot
					assert.FileExists(t, "../../docs/"+m[1], document)
					continue
				}
				assert.Contains(t, files, m[1], document)
				shown[m[1]] = true
			}
		}
	}
	for name := range pictures {
		assert.True(t, shown[name+"-dark.svg"] && shown[name+"-light.svg"], name)
	}
	for _, workload := range []string{"Success", "LayerGet503", "Sleepers", "Cancel", "Accuracy"} {
		assert.Contains(t, string(files["evidence/performance.md"]), "\n| "+workload+" | ")
	}
}

func TestStormCheck(t *testing.T) {
	t.Parallel()
	well, never := service.Result{Recovery: 1}, service.Result{Recovery: service.Never}
	require.NoError(t, (&storm{none: well, budgeted: well, unbudgeted: never}).check())
	require.Error(t, (&storm{none: well, budgeted: well, unbudgeted: never, usual: [3]int{200, 1, 21}}).check())
	require.Error(t, (&storm{none: well, budgeted: well, unbudgeted: well}).check())
	require.Error(t, (&storm{none: well, budgeted: never, unbudgeted: never}).check())
	require.Error(t, (&storm{none: never, budgeted: well, unbudgeted: never}).check())
}

func TestRun(t *testing.T) {
	t.Parallel()
	docs := t.TempDir()
	var out strings.Builder
	require.NoError(t, run([]string{"-raw", rawFolder, "-docs", docs}, &out))
	written := 0
	require.NoError(t, filepath.WalkDir(docs, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			written++
		}
		return err
	}))
	assert.Equal(t, strings.Count(out.String(), "\n"), written)
	assert.Contains(t, out.String(), filepath.Join(docs, "storm-dark.svg"))
}

// What was measured in part is not drawn.
func TestRejects(t *testing.T) {
	t.Parallel()
	require.Error(t, run([]string{"-raw", t.TempDir()}, io.Discard))
	require.Error(t, run([]string{"-raw", rawFolder, "-docs", filepath.Join(t.TempDir(), "none")}, io.Discard))
	require.Error(t, run([]string{"-none"}, io.Discard))

	for _, test := range []struct {
		file, without, want string
		figure              func(string) (*figure, error)
	}{
		{"peers.txt", "BenchmarkSuccess/", "peers.txt: no Success", success},
		{"peers.txt", "BenchmarkSuccessClosure/", "peers.txt: no SuccessClosure", success},
		{"peers.txt", "BenchmarkSuccess/by=gax", "by=gax is missing", success},
		{"sleepers.txt", "BenchmarkPool/context=own", "sleepers.txt: no", waiting},
		{"sleepers.txt", "BenchmarkSleepers", "no benchmark with B/sleeper", waiting},
		{"sleepers.txt", "BenchmarkPool", "no benchmark with B/task", waiting},
	} {
		t.Run(test.without, func(t *testing.T) {
			t.Parallel()
			all := testkit.Must(os.ReadFile(filepath.Join(rawFolder, test.file)))(t)
			var some strings.Builder
			for line := range strings.Lines(string(all)) {
				if !strings.HasPrefix(line, test.without) {
					some.WriteString(line)
				}
			}
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, test.file), []byte(some.String()), 0o600))
			_, err := test.figure(dir)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestScales(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "[{-10 −10} {0 0} {10 10}]", fmt.Sprint(every(10, -10, 10)))
	assert.Equal(t, "[{0 0} {10 10 s}]", fmt.Sprint(unit(at(0, 10), " s")))
	assert.Equal(t, "[{100 100 ns} {1000 1 µs} {10000 10 µs}]", fmt.Sprint(powers(100, 10_000)))
	assert.Equal(t, "7.6", twoDigits(7.64))
	assert.Equal(t, "12", twoDigits(12.4))
}

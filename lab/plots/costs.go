package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry/lab/peers"
	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

// costs is what a call costs, by contestant.
type costs struct {
	title string
	rows  map[string]rounds.Row
}

func (s *costs) ns(by string) float64     { return s.rows[by].Medians["ns/op"] }
func (s *costs) allocs(by string) float64 { return s.rows[by].Medians["allocs/op"] }

// success shows what a call costs that succeeds at once.
func success(raw string) (*figure, error) {
	data, err := rounds.Load("ns/op", filepath.Join(raw, "peers.txt"))
	if err != nil {
		return nil, err
	}
	static, closure := costs{title: "A static function"}, costs{title: "A closure, with a context per call"}
	if static.rows, err = byName(data, "Success"); err != nil {
		return nil, err
	}
	if closure.rows, err = byName(data, "SuccessClosure"); err != nil {
		return nil, err
	}
	// The cheapest first, with what most callers pass.
	by := slices.SortedFunc(maps.Keys(closure.rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(closure.ns(a), closure.ns(b)), cmp.Compare(a, b))
	})
	return &figure{
		title: "What a call costs that succeeds at once",
		notes: []string{
			"Medians, on a logarithmic scale: every line is ten times the one before.",
			"Hollow: a library that makes attempts although its context has ended.",
		},
		height: 120 + 2*rowHeight*float64(len(by)),
		draw: func(t *theme, page draw.Canvas) {
			const names = 88
			page.Min.X += vg.Points(names)
			page.Max.Y -= vg.Points(14)
			tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(22)}
			from, to := decades(by, &static, &closure)
			for i, shown := range []costs{static, closure} {
				p := t.rows(len(by))
				p.X.Scale = plot.LogScale{}
				p.X.Min, p.X.Max, p.X.Tick.Marker = from, to, powers(from, to)
				p.Add(t.verticals(values(p.X.Tick.Marker)...), shown.dots(t, by), t.names(by))
				p.Draw(draw.Crop(tiles.At(page, 0, i), 0, -vg.Points(columns), 0, 0))
			}
		},
	}, nil
}

func byName(data *rounds.Data, workload string) (map[string]rounds.Row, error) {
	rows := map[string]rounds.Row{}
	for _, r := range data.Rows(workload) {
		rows[r.By] = r
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("peers.txt: no %s", workload)
	}
	return rows, nil
}

// decades returns the powers of ten around all costs.
func decades(by []string, all ...*costs) (from, to float64) {
	from, to = math.Inf(1), 0
	for _, name := range by {
		for _, c := range all {
			from, to = min(from, c.ns(name)), max(to, c.ns(name))
		}
	}
	return max(math.Pow10(int(math.Floor(math.Log10(from)))), 1), math.Pow10(int(math.Ceil(math.Log10(to))))
}

// powers puts ticks at all powers of ten.
func powers(from, to float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for v := from; v <= to; v *= 10 {
		duration := time.Duration(v).String()
		number := strings.TrimRight(duration, "nµms")
		ticks = append(ticks, plot.Tick{Value: v, Label: number + " " + duration[len(number):]})
	}
	return ticks
}

// columns is the width of the figures beside the dots.
const columns = 62

func (s *costs) dots(t *theme, by []string) plotter {
	return func(c draw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		ns, allocs := c.Max.X+vg.Points(columns-32), c.Max.X+vg.Points(columns)
		heading := c.Max.Y + vg.Points(5)
		c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: heading}, s.title)
		c.FillText(right(t.text(small, t.muted)), vg.Point{X: ns, Y: heading}, "ns")
		c.FillText(right(t.text(small, t.muted)), vg.Point{X: allocs, Y: heading}, "allocs")
		for i, name := range by {
			at := vg.Point{X: x(s.ns(name)), Y: y(float64(-i))}
			dot := draw.GlyphStyle{Color: t.of(name), Radius: vg.Points(3.6), Shape: draw.CircleGlyph{}}
			if !checksContext(name) {
				dot.Radius, dot.Shape = vg.Points(3.1), ring{}
			}
			c.DrawGlyphNoClip(dot, at)
			figure := centered(t.text(small, t.of(name)), text.XRight)
			c.FillText(figure, vg.Point{X: ns, Y: at.Y}, twoDigits(s.ns(name)))
			c.FillText(figure, vg.Point{X: allocs, Y: at.Y}, fmt.Sprintf("%.0f", s.allocs(name)))
		}
	}
}

// ring is draw.RingGlyph with a line that can be seen.
type ring struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (ring) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(line(style.Color, 1.2))
	c.Stroke(addDot(nil, at, style.Radius.Points()))
}

// twoDigits prints all digits before the point, and two at least.
func twoDigits(x float64) string {
	if x < 10 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

func checksContext(name string) bool {
	for _, c := range peers.Contestants() {
		if c.Name == name {
			return c.ChecksContext() == "yes"
		}
	}
	return false
}

// memory is how many bytes a retry occupies while it waits.
type memory struct {
	by         string
	all, stack float64
}

// waiting shows the memory of retries that wait.
func waiting(raw string) (*figure, error) {
	all, err := sleepers(filepath.Join(raw, "sleepers.txt"))
	if err != nil {
		return nil, err
	}
	return &figure{
		title: "A retry that waits in retrypool occupies no goroutine",
		notes: []string{
			"Bytes per call that waits for its second attempt: solid the stack of its",
			"goroutine, faint all else. Medians. All calls share a context that can be",
			"canceled; with contexts of their own, one for each task.",
		},
		height: 105 + rowHeight*float64(len(all)),
		draw: func(t *theme, page draw.Canvas) {
			const names = 130
			bars(t, all).Draw(draw.Crop(page, vg.Points(names), 0, 0, 0))
		},
	}, nil
}

// sleepers reads the memory of all contestants, the least first.
func sleepers(file string) ([]memory, error) {
	blocked, err := rounds.Load("B/sleeper", file)
	if err != nil {
		return nil, err
	}
	pooled, err := rounds.Load("B/task", file)
	if err != nil {
		return nil, err
	}
	var all []memory
	for _, r := range blocked.Rows("Sleepers") {
		all = append(all, memory{r.By, r.Medians["B/sleeper"], r.Medians["stack-B/sleeper"]})
	}
	shared, own := pooled.Rows("Pool/context=shared"), pooled.Rows("Pool/context=own")
	if len(all) == 0 || len(shared) != 1 || len(own) != 1 {
		return nil, errors.New("sleepers.txt: no sleepers, or no tasks of retrypool")
	}
	all = append(all,
		memory{by: byPool, all: shared[0].Medians["B/task"]},
		memory{by: byPoolOwn, all: own[0].Medians["B/task"]})
	slices.SortStableFunc(all, func(a, b memory) int { return cmp.Compare(a.all, b.all) })
	return all, nil
}

func bars(t *theme, all []memory) *plot.Plot {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].by
	}
	const step = 1000
	most := (int(all[len(all)-1].all)/step + 1) * step
	p := t.rows(len(all))
	p.X.Min, p.X.Max = 0, float64(most)
	p.X.Tick.Marker = every(step, 0, most)
	p.X.Label.Text = "bytes"
	p.Add(t.verticals(0), t.names(names), plotter(func(c draw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		for i, m := range all {
			const half = 0.36
			bottom, top := y(float64(-i)-half), y(float64(-i)+half)
			fill(c, t.of(m.by), x(0), bottom, x(m.stack), top)
			fill(c, faint(t.of(m.by), 0.5), x(m.stack), bottom, x(m.all), top)
			end := vg.Point{X: x(m.all) + vg.Points(5), Y: (bottom + top) / 2}
			c.FillText(centered(t.text(small, t.of(m.by)), text.XLeft), end, fmt.Sprintf("%.0f", m.all))
		}
	}))
	return p
}

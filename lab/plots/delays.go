package main

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry"
)

// wait is a small picture of what a policy waits.
type wait struct {
	kind, literal string
	policy        retry.Policy
}

const (
	shownRetries = 8
	shownDraws   = 12
	limit        = 30 * time.Second
)

// backoffs shows every kind of Backoff with its default jitter.
func backoffs() *figure {
	waits := []wait{
		{"Exponential", "{Initial: 1s}", retry.Policy{Backoff: retry.Exponential{Initial: time.Second}}},
		{"Linear", "{Initial: 1s, Step: 3s}", retry.Policy{Backoff: retry.Linear{Initial: time.Second, Step: 3 * time.Second}}},
		{"Fibonacci", "{Initial: 1s}", retry.Policy{Backoff: retry.Fibonacci{Initial: time.Second}}},
		{"Constant", "(10s)", retry.Policy{Backoff: retry.Constant(10 * time.Second)}},
		{"Schedule", "{2s, 10s, 25s}", retry.Policy{Backoff: retry.Schedule{2 * time.Second, 10 * time.Second, 25 * time.Second}}},
	}
	return delays("What each Backoff waits, and what jitter makes of it", waits,
		"Line: the delay before jitter. Bar: what jitter may make of it; here the",
		"default, FullJitter, or ±10 % where you wrote down the waits. Dots: waits as",
		"drawn. MaxDelay is 30 s.")
}

// jitters shows every Jitter with the same Backoff.
func jitters() *figure {
	exponential := func(j retry.Jitter) retry.Policy {
		return retry.Policy{Backoff: retry.Exponential{Initial: time.Second}, Jitter: j}
	}
	waits := []wait{
		{"FullJitter", "the default", exponential(retry.FullJitter)},
		{"EqualJitter", "the upper half", exponential(retry.EqualJitter)},
		{"Proportional", "(0.25): ±25 %", exponential(retry.Proportional(0.25))},
		{"PlusMinus", "(3s): ±3s", exponential(retry.PlusMinus(3 * time.Second))},
		{"NoJitter", "clients stay in step", exponential(retry.NoJitter)},
	}
	return delays("What each Jitter makes of Exponential{Initial: 1s}", waits,
		"Line: the delay before jitter. Bar: what jitter may make of it. Dots: waits as",
		"drawn. At MaxDelay, 30 s, the range is cut, not the result, so that clients",
		"do not gather there.")
}

func delays(title string, waits []wait, notes ...string) *figure {
	for i := range waits {
		waits[i].policy.MaxAttempts = shownRetries + 1
		waits[i].policy.MaxDelay = limit
	}
	return &figure{title: title, notes: notes, height: 520, draw: func(t *theme, page draw.Canvas) {
		const columns, head = 2, 30
		rows := make([][]*plot.Plot, (len(waits)+columns-1)/columns)
		for i := range waits {
			rows[i/columns] = append(rows[i/columns], waits[i].plot(t, i%columns == 0))
		}
		for last := len(rows) - 1; len(rows[last]) < columns; {
			rows[last] = append(rows[last], nil)
		}
		tiles := draw.Tiles{
			Rows: len(rows), Cols: columns, PadX: vg.Points(9), PadY: vg.Points(head), PadTop: vg.Points(head), PadRight: vg.Points(2),
		}
		canvases := plot.Align(rows, tiles, page)
		for i, w := range waits {
			p, c := rows[i/columns][i%columns], canvases[i/columns][i%columns]
			p.Draw(c)
			data := p.DataCanvas(c)
			c.FillText(t.bold(normal, t.ink), vg.Point{X: data.Min.X, Y: data.Max.Y + vg.Points(18)}, w.kind)
			c.FillText(t.text(small, t.muted), vg.Point{X: data.Min.X, Y: data.Max.Y + vg.Points(7)}, w.literal)
		}
	}}
}

// plot draws the waits of all retries. Only the first plot of a row names the unit.
func (w *wait) plot(t *theme, first bool) *plot.Plot {
	p := t.plot()
	p.X.Min, p.X.Max = 0.4, shownRetries+0.6
	p.Y.Min, p.Y.Max = 0, limit.Seconds()
	p.X.Label.Text = "before retry"
	p.X.Tick.Marker = every(1, 1, shownRetries)
	if first {
		p.Y.Tick.Marker = unit(at(0, 10, 20, 30), " s")
	} else {
		p.Y.Tick.Marker = plot.ConstantTicks{}
	}
	p.Add(t.horizontals(0, 10, 20, 30), plotter(func(c draw.Canvas, p *plot.Plot) { w.bars(t, c, p) }))
	return p
}

func (w *wait) bars(t *theme, c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	height := func(d time.Duration) vg.Length { return y(d.Seconds()) }
	policy := w.policy
	policy.Rand = rand.New(rand.NewPCG(1, 2))
	var dots vg.Path
	for n := 1; n <= shownRetries; n++ {
		const half = 0.4
		left, right := x(float64(n)-half), x(float64(n)+half)
		lo, hi := policy.Bounds(n)
		fill(c, faint(t.ours, 0.28), left, height(lo), right, height(hi))
		for i := range shownDraws {
			if lo == hi {
				break
			}
			beside := (float64(i*5%shownDraws) + 0.5) / shownDraws // in no order
			delay := policy.Delay(retry.State{Failures: n})
			dots = addDot(dots, vg.Point{X: left + (right-left)*vg.Length(beside), Y: height(delay)}, 0.9)
		}
		before := height(min(policy.Backoff.Delay(n), limit))
		c.StrokeLine2(line(t.ours, 1.5), left, before, right, before)
	}
	c.SetColor(t.ink)
	c.Fill(dots)
}

// addDot adds a dot to a path: one path takes far less space than a path per dot.
func addDot(path vg.Path, center vg.Point, radius float64) vg.Path {
	r := vg.Points(radius)
	path.Move(vg.Point{X: center.X + r, Y: center.Y})
	path.Arc(center, r, 0, 2*math.Pi)
	path.Close()
	return path
}

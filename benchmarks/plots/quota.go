package main

import (
	"fmt"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry/benchmarks/quota/backlog"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
)

// behindQuota shows the requests of a backlog behind a quota.
func behindQuota() (*figure, error) {
	usual, rivals := scene.Servers()[0], backlog.Rivals()
	alone := totals(scene.Run(usual, rivals[0].New, 0))
	shared := totals(scene.Run(usual, rivals[len(rivals)-1].New, 0))
	if alone.Refused < 50*shared.Refused {
		return nil, fmt.Errorf("%d requests are refused without a Quota, %d with one: not what the picture says", alone.Refused, shared.Refused)
	}
	return &figure{
		title:  "1,000 jobs behind 50 requests in 2 seconds",
		notes:  []string{"Requests in each window. Four processes with 25 places each, simulated."},
		height: 290,
		draw: func(t *theme, page draw.Canvas) {
			const title = 30
			tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(4)}
			for row, r := range []struct {
				name string
				*backlogRun
			}{{"Each job knows of its own refusals", alone}, {"With a Quota in each process", shared}} {
				p := r.plot(t, r.name)
				if row == 1 {
					p.X.Label.Text = "seconds"
				}
				p.Draw(draw.Crop(tiles.At(page, 0, row), 0, 0, 0, -vg.Points(title)))
			}
		},
	}, nil
}

// backlogRun is a run of a backlog, with its totals.
type backlogRun struct {
	scene.Window2s

	windows []scene.Window2s
}

func totals(r scene.Result) *backlogRun {
	all := &backlogRun{windows: r.Windows}
	for _, w := range r.Windows {
		all.Served += w.Served
		all.Refused += w.Refused
	}
	return all
}

// plot draws a bar for each window: what was served, and what was refused on top of it.
func (r *backlogRun) plot(t *theme, name string) *plot.Plot {
	const seconds, most = 44, 1000
	p := t.plot()
	p.X.Min, p.X.Max = 0, seconds
	p.X.Tick.Marker = every(10, 0, 40)
	p.Y.Min, p.Y.Max = 0, most
	p.Y.Tick.Marker = at(0, 500, most)
	p.Add(t.horizontals(0, 500, most), plotter(func(c draw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		for i, w := range r.windows {
			const window, gap = 2, 0.25
			left, right := x(window*float64(i)+gap), x(window*float64(i+1))
			served := y(float64(w.Served))
			fill(c, t.ours, left, y(0), right, served)
			fill(c, t.worse, left, served, right, y(float64(w.Served+w.Refused)))
		}
		c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: c.Max.Y + vg.Points(8)}, name)
		at := vg.Point{X: x(22), Y: y(0.78 * most)}
		c.FillText(t.bold(heading, t.worse), at, thousands(r.Refused)+" refused")
		at.Y -= vg.Points(1.3 * heading)
		c.FillText(t.bold(heading, t.ours), at, thousands(r.Served)+" served")
	}))
	return p
}

// thousands prints a number with a comma.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

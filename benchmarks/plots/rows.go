package main

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The contestants that are drawn in colors of their own.
const (
	byUs   = "retry"
	byHand = "hand"

	// Those of retrypool, which blocks no caller.
	byPool    = "retrypool"
	byPoolOwn = "retrypool, own contexts"

	// Those of stored jobs: how their names begin.
	byWorker = "Worker"
	byLoops  = "loops by hand"
)

// of returns the color of a contestant.
func (t *theme) of(by string) color.NRGBA {
	switch {
	case by == byUs, by == byPool, by == byPoolOwn, strings.HasPrefix(by, byWorker):
		return t.ours
	case by == byHand, strings.HasPrefix(by, byLoops):
		return t.ink
	default:
		return t.muted
	}
}

const rowHeight = 15.5

// rows returns a plot with a row for each of n contestants, the first at the top.
func (t *theme) rows(n int) *plot.Plot {
	p := t.plot()
	p.HideY()
	p.Y.Min, p.Y.Max = 0.5-float64(n), 0.5
	return p
}

// names puts the names of the contestants beside their rows.
func (t *theme) names(by []string) plotter {
	return func(c draw.Canvas, p *plot.Plot) {
		_, y := p.Transforms(&c)
		for i, name := range by {
			style := t.text(normal, t.ink)
			if t.of(name) == t.ours {
				style = t.bold(normal, t.ours)
			}
			if name == byHand {
				name = "loop by hand"
			}
			c.FillText(centered(style, text.XRight), vg.Point{X: c.Min.X - vg.Points(8), Y: y(float64(-i))}, name)
		}
	}
}

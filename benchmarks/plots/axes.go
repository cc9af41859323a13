package main

import (
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// at puts ticks at values, which are their labels.
func at(values ...float64) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(values))
	for i, v := range values {
		ticks[i] = plot.Tick{Value: v, Label: strings.Replace(strconv.FormatFloat(v, 'f', -1, 64), "-", "−", 1)}
	}
	return ticks
}

// every puts ticks at equal distances.
func every(step, from, to int) plot.ConstantTicks {
	var values []float64
	for v := from; v <= to; v += step {
		values = append(values, float64(v))
	}
	return at(values...)
}

// unit adds a unit to all labels but that of 0.
func unit(ticks plot.ConstantTicks, unit string) plot.ConstantTicks {
	for i := range ticks {
		if ticks[i].Value != 0 {
			ticks[i].Label += unit
		}
	}
	return ticks
}

// values returns where the ticks are.
func values(ticks plot.Ticker) []float64 {
	var all []float64
	for _, tick := range ticks.Ticks(0, 0) {
		all = append(all, tick.Value)
	}
	return all
}

// label is text at a place in a plot.
func label(x, y float64, style text.Style, s string) plotter {
	return func(c draw.Canvas, p *plot.Plot) {
		toX, toY := p.Transforms(&c)
		c.FillText(style, vg.Point{X: toX(x), Y: toY(y)}, s)
	}
}

// fill fills a rectangle.
func fill(c draw.Canvas, with color.Color, left, bottom, right, top vg.Length) {
	c.FillPolygon(with, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
}

// horizontals is a part of the grid.
func (t *theme) horizontals(values ...float64) plotter {
	return func(c draw.Canvas, p *plot.Plot) {
		_, y := p.Transforms(&c)
		for _, v := range values {
			c.StrokeLine2(line(t.grid, 0.75), c.Min.X, y(v), c.Max.X, y(v))
		}
	}
}

// verticals is the other part.
func (t *theme) verticals(values ...float64) plotter {
	return func(c draw.Canvas, p *plot.Plot) {
		x, _ := p.Transforms(&c)
		for _, v := range values {
			c.StrokeLine2(line(t.grid, 0.75), x(v), c.Min.Y, x(v), c.Max.Y)
		}
	}
}

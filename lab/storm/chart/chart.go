// Package chart draws the load of a simulated service over time.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// Line is the load under one strategy.
type Line struct {
	Name   string
	Result service.Result
}

// Colors that can be read on white and on black, also by those who do not tell
// red from green.
var (
	ink  = color.RGBA{0x80, 0x80, 0x80, 0xff}
	inks = []color.Color{
		color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		color.RGBA{0x99, 0x99, 0x99, 0xff},
		color.RGBA{0x00, 0x8f, 0xd5, 0xff},
		color.RGBA{0x00, 0x9e, 0x73, 0xff},
		color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	}
)

const (
	width, height = 20 * vg.Centimeter, 9 * vg.Centimeter
	before, after = 10 * time.Second, 90 * time.Second
)

// Load writes an SVG with the attempts per second of every line, from shortly
// before the fault to some time after it, beside what the workers can serve.
func Load(w io.Writer, s service.Scenario, lines []Line) error {
	p := plot.New()
	style(p)
	p.Title.Text = fmt.Sprintf("%s of %v, %d clients, %.3g %% load", s.Fault, s.Duration, s.Clients, 100*s.Utilization())
	p.X.Label.Text = "seconds since the fault began"
	p.Y.Label.Text = "attempts per second"
	p.Y.Min = 0

	first := max(s.Warmup-before, 0)
	last := min(s.Warmup+s.Duration+after, s.Warmup+s.Duration+s.After)
	for i, line := range slices.Backward(lines) { // the first one on top
		xys := points(line.Result.Attempts, first, last, s.Warmup)
		l, err := plotter.NewLine(xys)
		if err != nil {
			return fmt.Errorf("chart: %s: %w", line.Name, err)
		}
		l.Color, l.Width = inks[i%len(inks)], vg.Points(1.5)
		p.Add(l)
		p.Legend.Add(line.Name, l)
	}
	p.Y.Max *= 1.3 // room for the legend
	capacity := plotter.NewFunction(func(float64) float64 { return s.Capacity() })
	capacity.XMin, capacity.XMax = (first - s.Warmup).Seconds(), (last - s.Warmup).Seconds()
	capacity.Color, capacity.Dashes = ink, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(capacity)
	p.Legend.Add("capacity", capacity)

	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}

func points(attempts []int, first, last, zero time.Duration) plotter.XYs {
	var xys plotter.XYs
	for at := first; at < last; at += time.Second {
		xys = append(xys, plotter.XY{X: (at - zero).Seconds(), Y: float64(attempts[at/time.Second])})
	}
	return xys
}

// style makes the drawing fit a light and a dark page.
func style(p *plot.Plot) {
	p.BackgroundColor = nil // that of the page
	p.Legend.Top = true
	p.Title.Padding = vg.Points(8)
	for _, text := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.Legend.TextStyle,
		&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		text.Color = ink
		text.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
	}
	for _, line := range []*draw.LineStyle{&p.X.LineStyle, &p.Y.LineStyle, &p.X.Tick.LineStyle, &p.Y.Tick.LineStyle} {
		line.Color = ink
	}
}

package main

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// theme is a set of colors for one kind of page, whose background shows through.
type theme struct {
	name  string
	ink   color.NRGBA // text
	muted color.NRGBA // text of less weight, and what is only there to compare
	grid  color.NRGBA

	// From the palette of Okabe and Ito, which everybody can tell apart.
	ours  color.NRGBA
	worse color.NRGBA
}

var themes = []*theme{
	{
		name: "light",
		ink:  rgb(0x1f2328), muted: rgb(0x59636e), grid: rgb(0xd8dee4),
		ours: rgb(0x0072b2), worse: rgb(0xc05400), // a shade darker than theirs, as it is text too
	},
	{
		name: "dark",
		ink:  rgb(0xe6edf3), muted: rgb(0x9198a1), grid: rgb(0x30363d),
		ours: rgb(0x56b4e9), worse: rgb(0xe8702a), // a shade lighter
	},
}

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// faint makes a color let through what is behind it.
func faint(c color.NRGBA, opacity float64) color.NRGBA {
	c.A = uint8(opacity * 0xff)
	return c
}

// The sizes of text, in points.
const (
	heading = 12.5
	normal  = 9.5
	small   = 9.1
)

// text returns a style for text that begins at a point and sits on it.
func (t *theme) text(size float64, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)},
		Handler: plot.DefaultTextHandler,
	}
}

func (t *theme) bold(size float64, c color.Color) text.Style {
	style := t.text(size, c)
	style.Font.Weight = xfont.WeightBold
	return style
}

// centered puts text in the middle of the height of a point, on one side of it.
func centered(style text.Style, x text.XAlignment) text.Style {
	const capitals = -0.41 // text.YCenter would be that of letters that reach below the line
	style.XAlign, style.YAlign = x, capitals
	return style
}

// right puts the end of text at a point.
func right(style text.Style) text.Style {
	style.XAlign = text.XRight
	return style
}

func line(c color.Color, width float64) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Points(width)}
}

// plot returns an empty plot: axes without lines, and a grid for those that have
// ticks.
func (t *theme) plot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Width = 0
		axis.Padding = vg.Points(4)
		axis.Tick.LineStyle = line(t.grid, 0.75)
		axis.Tick.Length = 0
		axis.Tick.Label.Font = t.text(small, nil).Font
		axis.Tick.Label.Color = t.muted
		axis.Label.TextStyle.Font = t.text(small, nil).Font
		axis.Label.TextStyle.Color = t.muted
		axis.Label.Padding = vg.Points(2)
	}
	p.Y.Tick.Label.XAlign = text.XRight
	return p
}

// plotter is a function that draws a part of a plot.
type plotter func(c draw.Canvas, p *plot.Plot)

// Plot implements [plot.Plotter].
func (f plotter) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }

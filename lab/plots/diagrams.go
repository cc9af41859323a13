package main

import (
	"image/color"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// diagrams are pictures of how something works. README and the guide show them, and the page of
// all that is measured or computed does not.
var diagrams = map[string]func() *figure{"error": errorPath, "job": jobEnds}

// step is a box of a diagram: what happens, and its details.
type step struct {
	name   string
	lines  []string
	aside  []string // what stands beside it, at the end of an arrow
	accent bool
	branch bool // it is one of several ways to go on
}

// errorPath shows what happens to an error.
func errorPath() *figure {
	return chain("What happens to an error", []string{"The first answer counts; each step is asked only if those above it have none."}, "again", []step{
		{"An attempt fails", []string{"with an error, a response, an exit code"}, nil, false, false},
		{"Has the caller's context ended?", []string{"asked first, whatever the error is"}, []string{"the end:", "canceled, deadline"}, false, false},
		{"A mark", []string{"MarkFinal, MarkRetryable, MarkRateLimited, …"}, nil, false, false},
		{"Your Policy.Classifier", []string{"On, Chain, or a function of your own"}, nil, false, false},
		{"The protocol, or else retry.Classify", []string{"HTTP, gRPC, SQL, exit codes; errno, type, method"}, nil, false, false},
		{"A class, a category, a hint", []string{"Retryable, RateLimited, Pending, Unknown"}, []string{"Final: the end,", "with the error itself"}, false, false},
		{"Policy.Decide", []string{"attempts, times, hint, effect, then the budget"}, []string{"no: the end, with", "an *Error: see its Stop"}, true, false},
		{"Wait, and the next attempt", []string{"backoff and jitter, or the hint"}, nil, true, false},
	})
}

// jobEnds shows what becomes of a stored job.
func jobEnds() *figure {
	return chain("What becomes of a stored job", []string{"Each attempt has one of four ends, whatever the engine."}, "when it is due", []step{
		{"A worker takes the job", []string{"the attempt is counted before the work runs"}, []string{"the worker dies: the", "attempt counts as lost"}, false, false},
		{"The work runs", []string{"Stored.Attempt, with a panic as an error"}, nil, false, false},
		{"Done", []string{"it succeeded: the job is removed or marked"}, []string{"end 1"}, true, true},
		{"Ended", []string{"no attempt is left, or the error is Final"}, []string{"end 2: a dead letter,", "with the error"}, true, true},
		{"Handed", []string{"the worker stops, or the work never began"}, []string{"end 3: another worker,", "nothing is counted"}, true, true},
		{"Again", []string{"it failed, and the policy says when to go on"}, []string{"end 4: State and due", "time are stored"}, true, true},
	})
}

// chain draws steps below each other. The last one leads back to the first, with a word.
func chain(title string, notes []string, back string, steps []step) *figure {
	const box, gap, indent = 30, 11, 16
	return &figure{
		title: title, notes: notes, height: 53 + float64(len(steps))*(box+gap),
		draw: func(t *theme, c draw.Canvas) {
			start, right := c.Min.X+vg.Points(14), c.Min.X+vg.Points(242)
			trunk, left := start+vg.Points(indent/2), start
			y := c.Max.Y
			for i, s := range steps {
				edge := t.muted
				if s.accent {
					edge = t.ours
				}
				if left = start; s.branch {
					left += vg.Points(indent)
					middle := y - vg.Points(box/2)
					c.StrokeLine2(line(t.muted, 1), trunk, y+vg.Points(gap), trunk, middle)
					arrow(c, t.muted, vg.Point{X: trunk, Y: middle}, vg.Point{X: left, Y: middle})
					if i < len(steps)-1 {
						c.StrokeLine2(line(t.muted, 1), trunk, middle, trunk, middle-vg.Points(box))
					}
				}
				top, bottom := y, y-vg.Points(box)
				fill(c, faint(edge, 0.12), left, bottom, right, top)
				c.StrokeLines(line(edge, 1), []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}, {X: left, Y: bottom}})
				c.FillText(t.bold(normal, t.ink), vg.Point{X: left + vg.Points(7), Y: top - vg.Points(12)}, s.name)
				for n, text := range s.lines {
					c.FillText(t.text(normal, t.muted), vg.Point{X: left + vg.Points(7), Y: top - vg.Points(24+11*float64(n))}, text)
				}
				t.beside(c, right, (top+bottom)/2, s.aside)
				y = bottom - vg.Points(gap)
				if i < len(steps)-1 && !steps[i+1].branch {
					arrow(c, t.muted, vg.Point{X: (left + right) / 2, Y: bottom}, vg.Point{X: (left + right) / 2, Y: y})
				}
			}
			// Back to the first step, around all others.
			x, last, first := c.Min.X+vg.Points(4), y+vg.Points(gap), c.Max.Y-vg.Points(box/2)
			middle := (left + right) / 2
			c.StrokeLines(line(t.ours, 1.5), []vg.Point{{X: middle, Y: last}, {X: middle, Y: last - vg.Points(8)}, {X: x, Y: last - vg.Points(8)}, {X: x, Y: first}, {X: start - vg.Points(5), Y: first}})
			arrow(c, t.ours, vg.Point{X: start - vg.Points(6), Y: first}, vg.Point{X: start, Y: first})
			c.FillText(t.bold(normal, t.ours), vg.Point{X: middle + vg.Points(6), Y: last - vg.Points(11)}, back)
		},
	}
}

// beside writes what a step leads to.
func (t *theme) beside(c draw.Canvas, x, y vg.Length, lines []string) {
	if len(lines) == 0 {
		return
	}
	arrow(c, t.muted, vg.Point{X: x, Y: y}, vg.Point{X: x + vg.Points(11), Y: y})
	for i, s := range lines {
		at := y + vg.Points(11*(float64(len(lines)-1)/2-float64(i)))
		c.FillText(centered(t.text(normal, t.ink), text.XLeft), vg.Point{X: x + vg.Points(14), Y: at}, s)
	}
}

// arrow draws a line with a head at its end, to the right or down.
func arrow(c draw.Canvas, ink color.NRGBA, from, to vg.Point) {
	c.StrokeLine2(line(ink, 1), from.X, from.Y, to.X, to.Y)
	const head = 3
	a, b := vg.Point{X: to.X - vg.Points(head), Y: to.Y + vg.Points(head)}, vg.Point{X: to.X - vg.Points(head), Y: to.Y - vg.Points(head)}
	if from.X == to.X {
		b = vg.Point{X: to.X + vg.Points(head), Y: to.Y + vg.Points(head)}
	}
	c.StrokeLines(line(ink, 1), []vg.Point{a, to, b})
}

package main

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// storm is what three strategies make of the same stall.
type storm struct {
	scenario                   service.Scenario
	none, unbudgeted, budgeted service.Result
}

// What is shown of a run, in seconds from the beginning of the stall.
const stormFrom, stormTo = -10, 70

func simulate() (*storm, error) {
	s := storm{scenario: service.Default()}
	s.scenario.Clients = 100
	for _, run := range []struct {
		result   *service.Result
		strategy service.Strategy
	}{
		{&s.none, service.NoRetries()},
		{&s.unbudgeted, service.Exponential(3, retry.FullJitter)},
		{&s.budgeted, service.Budgeted(func() *retry.Budget { return &retry.Budget{} })},
	} {
		var err error
		if *run.result, err = service.Run(s.scenario, run.strategy); err != nil {
			return nil, err
		}
	}
	return &s, s.check()
}

// check finds out whether the picture still shows what its title says.
func (s *storm) check() error {
	if s.unbudgeted.Recovery != service.Never || s.budgeted.Recovery == service.Never || s.none.Recovery == service.Never {
		return fmt.Errorf("recovers after %v with a budget, %v without, %v without retries: not what the picture says",
			s.budgeted.Recovery, s.unbudgeted.Recovery, s.none.Recovery)
	}
	return nil
}

// load shows the load of the service over time, and what it is good for.
func load() (*figure, error) {
	s, err := simulate()
	if err != nil {
		return nil, err
	}
	return &figure{
		title: "After a stall, retries without a budget keep the service down. With one, it recovers",
		notes: []string{
			fmt.Sprintf("%d clients make %.0f calls/s. The service can serve %.0f/s, and stalls for %.0f s. 3 attempts with full jitter, timeout %.0f s.",
				s.scenario.Clients, s.scenario.Rate, s.scenario.Capacity(), s.scenario.Duration.Seconds(), s.scenario.Timeout.Seconds()),
			"Simulated, with the real Policy and Budget. The zero Budget is all that differs.",
		},
		height: 375,
		draw: func(t *theme, page draw.Canvas) {
			const lower, title = 130, 16
			upper := page
			upper.Min.Y += vg.Points(lower)
			page.Max.Y = upper.Min.Y - vg.Points(4)
			for _, part := range []struct {
				canvas draw.Canvas
				plot   *plot.Plot
			}{{upper, s.attempts(t)}, {page, s.successes(t)}} {
				part.plot.Draw(draw.Crop(part.canvas, 0, 0, 0, -vg.Points(title)))
			}
		},
	}, nil
}

func (s *storm) attempts(t *theme) *plot.Plot {
	p := s.plot(t, "Attempts per second", 500, 1000, 1500, 2000, 2500)
	s.lines(t, p, func(r *service.Result) []int { return r.Attempts })
	p.Add(plotter(func(c draw.Canvas, p *plot.Plot) {
		_, y := p.Transforms(&c)
		capacity := line(t.ink, 1)
		capacity.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		c.StrokeLine2(capacity, c.Min.X, y(s.scenario.Capacity()), c.Max.X, y(s.scenario.Capacity()))
	}),
		label(20, 2060, t.bold(normal, t.worse), "without a budget"),
		label(20, 1050, t.text(normal, t.ink), "what the service can serve"),
		label(20, 580, t.bold(normal, t.ours), "with a budget"),
		label(34, 580, t.text(normal, t.muted), "no retries: much the same"))
	return p
}

func (s *storm) successes(t *theme) *plot.Plot {
	p := s.plot(t, "Calls that succeed, per second", 500, 1000)
	p.X.Label.Text = "seconds since the stall began"
	s.lines(t, p, func(r *service.Result) []int { return r.Good })
	p.Add(
		label(49, 560, t.bold(normal, t.ours), fmt.Sprintf("well %.0f s after the stall", s.budgeted.Recovery.Seconds())),
		label(42.5, 560, centered(t.text(normal, t.muted), text.XRight), fmt.Sprintf("no retries: %.0f s after", s.none.Recovery.Seconds())),
		label(49, 60, t.bold(normal, t.worse), "never well again"))
	return p
}

// plot returns a plot without lines, whose vertical axis ends at the last mark.
func (s *storm) plot(t *theme, title string, marks ...float64) *plot.Plot {
	p := t.plot()
	p.X.Min, p.X.Max = stormFrom, stormTo
	p.X.Tick.Marker = every(10, stormFrom, stormTo)
	p.Y.Min, p.Y.Max = 0, marks[len(marks)-1]
	p.Y.Tick.Marker = at(append([]float64{0}, marks...)...)
	p.Add(plotter(func(c draw.Canvas, p *plot.Plot) {
		x, _ := p.Transforms(&c)
		left, right := x(0), x(s.scenario.Duration.Seconds())
		fill(c, faint(t.muted, 0.18), left, c.Min.Y, right, c.Max.Y)
		c.FillText(centered(t.text(normal, t.muted), text.XCenter), vg.Point{X: (left + right) / 2, Y: c.Min.Y + vg.Points(10)}, "stall")
		c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: c.Max.Y + vg.Points(7)}, title)
	}), t.horizontals(append([]float64{0}, marks...)...))
	return p
}

// lines draws a series of every strategy, the most interesting on top.
func (s *storm) lines(t *theme, p *plot.Plot, series func(*service.Result) []int) {
	zero := s.scenario.Warmup
	for _, l := range []struct {
		result *service.Result
		color  color.Color
		width  float64
	}{{&s.none, t.muted, 1}, {&s.unbudgeted, t.worse, 2}, {&s.budgeted, t.ours, 2}} {
		counts := series(l.result)
		p.Add(plotter(func(c draw.Canvas, p *plot.Plot) {
			x, y := p.Transforms(&c)
			var points []vg.Point
			for at := stormFrom; at < stormTo; at++ {
				count := counts[int(zero/time.Second)+at]
				points = append(points, vg.Point{X: x(float64(at) + 0.5), Y: y(float64(count))})
			}
			c.StrokeLines(line(l.color, l.width), points)
		}))
	}
}

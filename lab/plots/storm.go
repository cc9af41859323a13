package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// storm is what three strategies make of the same stall, and of a day on which few attempts fail.
type storm struct {
	scenario                   service.Scenario
	none, unbudgeted, budgeted service.Result

	// Of the strategies in this order, the calls of 10,000 that fail on a usual day.
	usual [3]int
}

// What is shown of a run, in seconds from the beginning of the stall.
const stormFrom, stormTo = -10, 70

// usualErrors is the share of the attempts that fail on a usual day, as in the playground.
const usualErrors = 0.02

func simulate() (*storm, error) {
	s := storm{scenario: service.Default()}
	s.scenario.Clients = 100
	usual := s.scenario.Usual(service.Partial)
	usual.Severity, usual.Duration = usualErrors, time.Minute
	for i, run := range []struct {
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
		day, err := service.Run(usual, run.strategy)
		if err != nil {
			return nil, err
		}
		s.usual[i] = int(math.Round(10_000 * (1 - day.During)))
	}
	return &s, s.check()
}

// check finds out whether the picture still shows what its title says.
func (s *storm) check() error {
	if s.unbudgeted.Recovery != service.Never || s.budgeted.Recovery == service.Never || s.none.Recovery == service.Never {
		return fmt.Errorf("recovers after %v with a budget, %v without, %v without retries: not what the picture says",
			s.budgeted.Recovery, s.unbudgeted.Recovery, s.none.Recovery)
	}
	if none := s.usual[0]; none < 10*s.usual[1] || none < 10*s.usual[2] {
		return fmt.Errorf("calls that fail on a usual day: %v: not what the picture says", s.usual)
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
		title: "What retries are for, and what they do",
		notes: []string{
			fmt.Sprintf("%d clients make %.0f calls/s. The service can serve %.0f/s. 3 attempts with full", s.scenario.Clients, s.scenario.Rate, s.scenario.Capacity()),
			fmt.Sprintf("jitter, timeout %.0f s. Simulated, with the real Policy and the zero Budget.", s.scenario.Timeout.Seconds()),
		},
		height: 480,
		draw: func(t *theme, page draw.Canvas) {
			const usual, lower, title = 78, 130, 18
			bars := page
			bars.Min.Y = bars.Max.Y - vg.Points(usual)
			s.failures(t, bars)
			upper := page
			upper.Max.Y = bars.Min.Y - vg.Points(title)
			upper.Min.Y = page.Min.Y + vg.Points(lower)
			c := page
			c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: bars.Min.Y - vg.Points(6)},
				fmt.Sprintf("When the service stalls for %.0f s: the other half", s.scenario.Duration.Seconds()))
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

// failures shows what retries are for: how many calls fail on a usual day.
func (s *storm) failures(t *theme, c draw.Canvas) {
	const row, bar, from = 17, 11, 92
	c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: c.Max.Y - vg.Points(normal)},
		fmt.Sprintf("On a usual day, when %.0f %% of the attempts fail: calls that fail, of 10,000", 100*usualErrors))
	for i, line := range []struct {
		name  string
		color color.NRGBA
	}{{"no retries", t.muted}, {"without a budget", t.worse}, {"with a budget", t.ours}} {
		y := c.Max.Y - vg.Points(normal+row*(float64(i)+1)+2)
		left := c.Min.X + vg.Points(from)
		length := (c.Max.X - left - vg.Points(30)) * vg.Length(s.usual[i]) / vg.Length(s.usual[0])
		c.FillText(right(t.bold(normal, line.color)), vg.Point{X: left - vg.Points(6), Y: y}, line.name)
		fill(c, line.color, left, y-vg.Points(2), left+max(length, vg.Points(1)), y+vg.Points(bar-2))
		c.FillText(t.text(normal, t.ink), vg.Point{X: left + length + vg.Points(5), Y: y}, strconv.Itoa(s.usual[i]))
	}
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
		label(20, 250, t.text(normal, t.muted), "no retries: much the same"))
	return p
}

func (s *storm) successes(t *theme) *plot.Plot {
	p := s.plot(t, "Calls that succeed, per second", 500, 1000)
	p.X.Label.Text = "seconds since the stall began"
	s.lines(t, p, func(r *service.Result) []int { return r.Good })
	p.Add(
		label(49, 560, t.bold(normal, t.ours), fmt.Sprintf("well %.0f s after", s.budgeted.Recovery.Seconds())),
		label(49, 320, t.text(normal, t.muted), fmt.Sprintf("no retries: %.0f s", s.none.Recovery.Seconds())),
		label(49, 80, t.bold(normal, t.worse), "never well again"))
	return p
}

// plot returns a plot without lines, whose vertical axis ends at the last mark.
func (s *storm) plot(t *theme, title string, marks ...float64) *plot.Plot {
	p := t.plot()
	p.X.Min, p.X.Max = stormFrom, stormTo
	p.X.Tick.Marker = every(20, 0, stormTo)
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

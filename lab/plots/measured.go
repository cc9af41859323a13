package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
	"github.com/seed-5ff3c98e/retry/lab/quota/backlog"
	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

// column has a figure for each contestant.
type column struct {
	title  string
	values map[string]float64
}

// columnsOf reads columns: title and workload in turns.
func columnsOf(file, unit string, titled ...string) ([]column, error) {
	data := rounds.New(unit)
	if err := data.ReadFile(file); err != nil {
		return nil, err
	}
	var all []column
	for pair := range slices.Chunk(titled, 2) {
		c := column{pair[0], map[string]float64{}}
		for _, row := range data.Rows(pair[1]) {
			c.values[strings.ReplaceAll(row.By, "_", " ")] = row.Medians[unit]
		}
		if len(c.values) == 0 {
			return nil, fmt.Errorf("%s: no %s", file, pair[1])
		}
		all = append(all, c)
	}
	return all, nil
}

// contestants are those of the first column, the one with the most first.
func contestants(all []column) []string {
	var names []string
	for name := range all[0].values {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(all[0].values[b], all[0].values[a]), cmp.Compare(a, b))
	})
	return names
}

// pivot is a table with a row for each contestant.
func pivot(file, unit, format string, titled ...string) (string, error) {
	all, err := columnsOf(file, unit, titled...)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, c := range all {
		out.WriteString(" | " + c.title)
	}
	out.WriteString(" |\n|---" + strings.Repeat("|---", len(all)) + "|\n")
	for _, name := range contestants(all) {
		out.WriteString("| " + name)
		for _, c := range all {
			if v, ok := c.values[name]; ok {
				fmt.Fprintf(&out, " | "+format, v)
			} else {
				out.WriteString(" | –")
			}
		}
		out.WriteString(" |\n")
	}
	return "|" + out.String(), nil
}

// durable shows the jobs in a second.
func durable(raw string) (*figure, error) {
	all, err := columnsOf(filepath.Join(raw, "durable.txt"), "jobs/s",
		"100 places", "Durable/places=100/failing=0", "10 of 100 jobs fail once", "Durable/places=100/failing=10")
	if err != nil {
		return nil, err
	}
	by, end := contestants(all), 0
	for _, c := range all {
		for _, v := range c.values {
			end = max(end, (int(v)/tick+1)*tick)
		}
	}
	return &figure{
		title: "Stored jobs that are done in a second",
		notes: []string{
			"Jobs that do nothing, 100 at a time, on one machine with its database; each",
			"outcome waits for the disk, but asynq's. Medians.",
		},
		height: 120 + 2*rowHeight*float64(len(by)),
		draw: func(t *theme, page draw.Canvas) {
			const names = 120
			page.Min.X += vg.Points(names)
			page.Max.Y -= vg.Points(14)
			tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(22)}
			for i := range all {
				p := all[i].bars(t, by, end)
				p.Add(t.names(by))
				p.Draw(draw.Crop(tiles.At(page, 0, i), 0, -vg.Points(30), 0, 0))
			}
		},
	}, nil
}

const tick = 20_000

func (col *column) bars(t *theme, by []string, end int) *plot.Plot {
	p := t.rows(len(by))
	p.X.Min, p.X.Max = 0, float64(end)
	p.X.Tick.Marker = every(tick, 0, end)
	p.Add(t.verticals(0), plotter(func(c draw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		c.FillText(t.bold(normal, t.ink), vg.Point{X: c.Min.X, Y: c.Max.Y + vg.Points(5)}, col.title)
		for i, name := range by {
			const half = 0.36
			bottom, top, figure := y(float64(-i)-half), y(float64(-i)+half), "–" // was not measured
			v, ok := col.values[name]
			if ok {
				fill(c, t.of(name), x(0), bottom, x(v), top)
				figure = fmt.Sprintf("%.0f", v)
			}
			at := vg.Point{X: x(v) + vg.Points(4), Y: (bottom + top) / 2}
			c.FillText(centered(t.text(small, t.of(name)), text.XLeft), at, figure)
		}
	}))
	return p
}

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

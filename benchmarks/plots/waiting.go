package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry/benchmarks/table/rounds"
)

// memory is how many bytes a retry occupies while it waits.
type memory struct {
	by         string
	all, stack float64
}

// waiting shows the memory of retries that wait.
func waiting(raw string) (*figure, error) {
	all, err := sleepers(filepath.Join(raw, "sleepers.txt"))
	if err != nil {
		return nil, err
	}
	return &figure{
		title: "A retry that waits in retrypool occupies no goroutine",
		notes: []string{
			"Bytes per call that waits for its second attempt: solid the stack of its",
			"goroutine, faint all else. Medians. All calls share a context that can be",
			"canceled; with contexts of their own, one for each task.",
		},
		height: 105 + rowHeight*float64(len(all)),
		draw: func(t *theme, page draw.Canvas) {
			const names = 130
			bars(t, all).Draw(draw.Crop(page, vg.Points(names), 0, 0, 0))
		},
	}, nil
}

// sleepers reads the memory of all contestants, the least first.
func sleepers(file string) ([]memory, error) {
	blocked, err := rounds.Load("B/sleeper", file)
	if err != nil {
		return nil, err
	}
	pooled, err := rounds.Load("B/task", file)
	if err != nil {
		return nil, err
	}
	var all []memory
	for _, r := range blocked.Rows("Sleepers") {
		all = append(all, memory{r.By, r.Medians["B/sleeper"], r.Medians["stack-B/sleeper"]})
	}
	shared, own := pooled.Rows("Pool/context=shared"), pooled.Rows("Pool/context=own")
	if len(all) == 0 || len(shared) != 1 || len(own) != 1 {
		return nil, errors.New("sleepers.txt: no sleepers, or no tasks of retrypool")
	}
	all = append(all,
		memory{by: byPool, all: shared[0].Medians["B/task"]},
		memory{by: byPoolOwn, all: own[0].Medians["B/task"]})
	slices.SortStableFunc(all, func(a, b memory) int { return cmp.Compare(a.all, b.all) })
	return all, nil
}

func bars(t *theme, all []memory) *plot.Plot {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].by
	}
	const step = 1000
	most := (int(all[len(all)-1].all)/step + 1) * step
	p := t.rows(len(all))
	p.X.Min, p.X.Max = 0, float64(most)
	p.X.Tick.Marker = every(step, 0, most)
	p.X.Label.Text = "bytes"
	p.Add(t.verticals(0), t.names(names), plotter(func(c draw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		for i, m := range all {
			const half = 0.36
			bottom, top := y(float64(-i)-half), y(float64(-i)+half)
			fill(c, t.of(m.by), x(0), bottom, x(m.stack), top)
			fill(c, faint(t.of(m.by), 0.5), x(m.stack), bottom, x(m.all), top)
			end := vg.Point{X: x(m.all) + vg.Points(5), Y: (bottom + top) / 2}
			c.FillText(centered(t.text(small, t.of(m.by)), text.XLeft), end, fmt.Sprintf("%.0f", m.all))
		}
	}))
	return p
}

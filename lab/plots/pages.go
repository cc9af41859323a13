package main

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"image/color"
	"path/filepath"
	"strings"
	"text/template"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

// The pages of docs/evidence/, as templates: what is measured is never written by hand.
//
//go:embed pages/*.md
var pageFiles embed.FS

// pages returns the pages by their names.
func pages(raw string, figures map[string]*figure) (map[string][]byte, error) {
	templates, err := template.New("").Funcs(template.FuncMap{
		"picture": func(name string) (string, error) {
			f, ok := figures[name]
			if !ok {
				return "", fmt.Errorf("no picture %s", name)
			}
			return embedded(name, f), nil
		},
		"machine": func(file string) (string, error) {
			d := rounds.New("")
			err := d.ReadFile(filepath.Join(raw, file))
			return d.Machine() + ".", err
		},
		"ratios": func(file, metric string) (string, error) {
			d, err := rounds.Load(metric, filepath.Join(raw, file))
			if err != nil {
				return "", err
			}
			return d.Ratios(), nil
		},
		"bytes": func(file, metric, workload, by string) (string, error) {
			d, err := rounds.Load(metric, filepath.Join(raw, file))
			if err != nil {
				return "", err
			}
			for _, r := range d.Rows(workload) {
				if r.By == by {
					return fmt.Sprintf("%.0f", r.Medians[metric]), nil
				}
			}
			return "", fmt.Errorf("%s: no %s by=%s", file, workload, by)
		},
		"pivot": func(file, unit, format string, titled ...string) (string, error) {
			return pivot(filepath.Join(raw, file), unit, format, titled...)
		},
	}).ParseFS(pageFiles, "pages/*.md")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, t := range templates.Templates() {
		var page bytes.Buffer
		if err := t.Execute(&page, nil); err != nil {
			return nil, err
		}
		all["evidence/"+t.Name()] = append(bytes.TrimRight(page.Bytes(), "\n"), '\n')
	}
	return all, nil
}

// embedded shows the variant of a picture that fits the page.
func embedded(name string, f *figure) string {
	return fmt.Sprintf(`<picture>
  <source media="(prefers-color-scheme: dark)" srcset="../%[1]s-dark.svg">
  <img alt="%[2]s" src="../%[1]s-light.svg" width="%[3]d">
</picture>`, name, html.EscapeString(f.title), pixels)
}

// The contestants that are drawn in colors of their own.
const (
	byUs   = "retry"
	byHand = "hand"

	// Benchmarks of retrypool, which blocks no caller.
	byPool    = "retrypool"
	byPoolOwn = "retrypool, own contexts"

	// Benchmarks of stored jobs: how their names begin.
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

package main

import (
	"fmt"
	"maps"
)

// pictures are the figures by their names: each makes NAME-light.svg and
// NAME-dark.svg. Those that show what was measured read it from a folder.
var pictures = map[string]func(raw string) (*figure, error){
	"backoffs": func(string) (*figure, error) { return backoffs(), nil },
	"durable":  durable,
	"jitters":  func(string) (*figure, error) { return jitters(), nil },
	"quota":    func(string) (*figure, error) { return behindQuota() },
	"storm":    func(string) (*figure, error) { return load() },
	"success":  success,
	"waiting":  waiting,
}

// generate returns all files by their names.
func generate(raw string) (map[string][]byte, error) {
	files, figures := map[string][]byte{}, map[string]*figure{}
	for name, figureOf := range pictures {
		f, err := figureOf(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		figures[name] = f
		for _, t := range themes {
			files[name+"-"+t.name+".svg"] = f.svg(t)
		}
	}
	for name, figureOf := range diagrams {
		for _, t := range themes {
			files[name+"-"+t.name+".svg"] = figureOf().svg(t)
		}
	}
	pages, err := pages(raw, figures)
	maps.Copy(files, pages)
	return files, err
}

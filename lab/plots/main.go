// Command plots writes the pictures of docs/, and the pages that show them:
//
//	go run ./plots
//
// Every picture comes in two colors, for light and for dark pages. What is measured
// is read from raw/, and what can be computed is computed, with fixed seeds: the
// same input gives the same files.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("plots", flag.ContinueOnError)
	raw := flags.String("raw", "raw", "`folder` of what was measured")
	docs := flags.String("docs", "../docs", "`folder` to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := generate(*raw)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(*docs, name)
		if filepath.Dir(name) != "." {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(out, path)
	}
	return nil
}

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

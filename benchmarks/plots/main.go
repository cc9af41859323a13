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

package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

const (
	generatedUsage = "check generated files too"
	adviceUsage    = "run the checks too that are advice and off by default: nojitter"
)

const usage = `Usage: retryvet [flags] packages

retryvet finds mistakes in Go code that retries. -sleep runs only this check and others that are
named, -sleep=false all others. "retryvet help sleep" explains it.

`

// options are what the arguments say.
type options struct {
	json, sarif, fix, advice bool
	named                    map[string]bool // checks that a flag turns on or off
	patterns                 []string
}

// parse reads the arguments. It ends the program if they make no sense.
func parse(args []string) *options {
	o := &options{named: map[string]bool{}}
	flags := flag.NewFlagSet("retryvet", flag.ExitOnError)
	flags.BoolVar(&o.json, "json", false, "write the findings as JSON")
	flags.BoolVar(&o.sarif, "sarif", false, "write the findings as SARIF")
	flags.BoolVar(&o.fix, "fix", false, "mend what can be mended, and print no findings")
	diff := flags.Bool("diff", false, "with -fix: print what would change, and change nothing")
	flags.BoolVar(&o.advice, "advice", false, adviceUsage)
	flags.BoolVar(&checks.Generated, "generated", false, generatedUsage)
	for _, a := range checks.All() {
		doc, _, _ := strings.Cut(a.Doc, "\n")
		flags.BoolFunc(a.Name, doc, func(s string) error {
			on, err := strconv.ParseBool(s)
			o.named[a.Name] = on
			return err
		})
	}
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(args) // ends the program
	o.patterns = flags.Args()
	wrong := func(text string) {
		fmt.Fprintln(os.Stderr, "retryvet: "+text)
		os.Exit(wrongArguments)
	}
	switch {
	case len(o.patterns) == 0:
		flags.Usage()
		os.Exit(wrongArguments)
	case o.json && o.sarif:
		wrong("-json and -sarif: choose one")
	case o.fix && (o.json || o.sarif):
		wrong("-fix prints no findings: run once with -fix, and then without")
	case *diff && !o.fix:
		wrong("-diff needs -fix")
	}
	return o
}

// checks returns the checks to run: the ones that are turned on, or else the usual ones but
// those that are turned off.
func (o *options) checks() []*analysis.Analyzer {
	on := func(a *analysis.Analyzer) bool { return o.named[a.Name] }
	all := checks.All()
	if slices.ContainsFunc(all, on) {
		return slices.DeleteFunc(all, func(a *analysis.Analyzer) bool { return !on(a) })
	}
	if !o.advice {
		all = checks.Default()
	}
	return slices.DeleteFunc(all, func(a *analysis.Analyzer) bool { _, off := o.named[a.Name]; return off })
}

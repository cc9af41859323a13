// Command retryvet finds mistakes in Go code that retries.
//
//	go run github.com/seed-5ff3c98e/retry/cmd/retryvet@latest ./...
//
// It is also a tool for go vet -vettool. Its checks are explained in docs/retryvet.md.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("retryvet: ")
	args := os.Args[1:]
	if byGoVet(args) || len(args) > 0 && args[0] == "help" {
		multi()
		return
	}
	o := parse(args)
	if o.fix {
		// A file is in its package and in the package with its tests. It is mended once.
		os.Args = slices.Insert(os.Args, 1, "-test=false")
		multi()
		return
	}
	os.Exit(report(o))
}

// byGoVet reports whether go vet runs this program: it asks for the version and the flags, and
// has one package checked at a time.
func byGoVet(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "-flags" || strings.HasPrefix(arg, "-V=") || strings.HasSuffix(arg, ".cfg")
	})
}

// multi runs the driver of golang.org/x/tools, which knows the protocol of go vet and mends
// files.
func multi() {
	flag.BoolVar(&checks.Generated, "generated", false, generatedUsage)
	flag.Bool("advice", false, adviceUsage)
	if !slices.ContainsFunc(os.Args, asksForAdvice) {
		os.Args = slices.Insert(os.Args, 1, "-"+checks.NoJitter.Name+"=false") // unless a later flag sets it
	}
	all := checks.All()
	for i, a := range all {
		all[i] = labeled(a)
	}
	multichecker.Main(all...)
}

// asksForAdvice reports whether an argument is -advice.
func asksForAdvice(arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	return arg != name && (name == "advice" || name == "advice=true")
}

// labeled returns a check whose findings name it and where it is explained: go vet prints only
// their text, and asks for JSON to do so.
func labeled(a *analysis.Analyzer) *analysis.Analyzer {
	named := *a
	named.Run = func(pass *analysis.Pass) (any, error) {
		inner := *pass
		inner.Report = func(d analysis.Diagnostic) {
			d.Message = a.Name + ": " + d.Message + " (" + a.URL + ")"
			pass.Report(d)
		}
		return a.Run(&inner)
	}
	return &named
}

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

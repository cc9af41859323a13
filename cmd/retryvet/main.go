// Command retryvet finds mistakes in Go code that retries.
//
//	go run github.com/seed-5ff3c98e/retry/cmd/retryvet@latest ./...
//
// It is also a tool for go vet -vettool. Its checks are explained in docs/retryvet.md.
package main

import (
	"flag"
	"log"
	"os"
	"slices"
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

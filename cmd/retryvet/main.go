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
	args := os.Args[1:]
	if i := slices.IndexFunc(args, named("sarif")); i >= 0 {
		log.SetFlags(0)
		if err := sarif(slices.Delete(args, i, i+1), os.Stdout); err != nil {
			log.Fatal("retryvet: ", err)
		}
		return
	}
	flag.BoolVar(&checks.Generated, "generated", false, "check generated files too")
	flag.Bool("advice", false, "run the checks too that are advice and off by default: "+checks.NoJitter.Name)
	flag.Bool("sarif", false, "emit SARIF output")
	multichecker.Main(analyzers(args)...)
}

// analyzers returns the checks that the arguments ask for. Of those, multichecker runs the
// ones that are named, if there are any. go vet asks for the flags first, to know all of them.
func analyzers(args []string) []*analysis.Analyzer {
	for _, name := range []string{"advice", checks.NoJitter.Name, "flags"} {
		if slices.ContainsFunc(args, named(name)) {
			return checks.All()
		}
	}
	return checks.Default()
}

// named returns a function that reports whether an argument sets a flag.
func named(name string) func(string) bool {
	return func(arg string) bool {
		flag, ok := strings.CutPrefix(arg, "-")
		flag = strings.TrimPrefix(flag, "-")
		return ok && (flag == name || flag == name+"=true")
	}
}

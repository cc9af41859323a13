// Command retryvet finds mistakes in Go code that retries.
//
//	go run github.com/seed-5ff3c98e/retry/cmd/retryvet@latest ./...
//
// It is also a tool for go vet -vettool. See docs/retryvet.md for its checks.
package main

import (
	"flag"
	"os"
	"slices"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
)

func main() {
	flag.BoolVar(&checks.Generated, "generated", false, "check generated files too")
	flag.Bool("advice", false, "run the checks too that are advice and off by default: "+checks.NoJitter.Name)
	multichecker.Main(analyzers(os.Args[1:])...)
}

// analyzers returns the checks that the arguments ask for. Of those, multichecker runs the
// ones that are named, if there are any. go vet asks for the flags first, to know all of them.
func analyzers(args []string) []*analysis.Analyzer {
	for _, name := range []string{"advice", checks.NoJitter.Name, "flags"} {
		if slices.Contains(args, "-"+name) || slices.Contains(args, "--"+name) || slices.Contains(args, "-"+name+"=true") {
			return checks.All()
		}
	}
	return checks.Default()
}

// Command table reads the raw output of several rounds of benchmarks and prints a
// Markdown table for each of them, the fastest first:
//
//	table [-metric B/sleeper] [file …]
//
// A round is one run of all benchmarks of a package. What a contestant costs is
// compared with what the loop by hand cost in the same round, because they saw the
// same machine; printed are the median of these ratios, and the smallest and the
// largest. All other figures are medians.
//
// Without files it reads the standard input. It fails on anything that is not the
// output of a complete run: a line it does not know, a benchmark that failed, a
// contestant that is missing in a round, rounds of two machines in one table.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	metric := flags.String("metric", "ns/op", "the `unit` of what is compared")
	if err := flags.Parse(args); err != nil {
		return err
	}
	data := rounds.New(*metric)
	for _, name := range flags.Args() {
		if err := data.ReadFile(name); err != nil {
			return err
		}
	}
	if flags.NArg() == 0 {
		if err := data.Read("standard input", in); err != nil {
			return err
		}
	}
	if err := data.Check(); err != nil {
		return err
	}
	return data.Write(out)
}

// Storm shows what a retry policy does to a service that is in trouble, before
// it does so in production:
//
//	go run ./storm -policy policy.json -clients 100 -fault stall -duration 10s
//
// It simulates open-loop clients of a service with a queue, a fault in it, and
// the policy with its budget, beside no retries and beside three attempts
// without a budget. It prints what came of it, and draws the load with -plot.
// The same flags give the same result, to the byte, on the same architecture.
//
// -reproduce writes the tables of docs/evidence/storms.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-5ff3c98e/retry/benchmarks/storm/chart"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if o.reproduce != "" {
		var doc strings.Builder
		if err := reproduce(&doc); err != nil {
			return err
		}
		return write("reproduce", o.reproduce, doc.String())
	}
	compared, results, err := o.Run()
	if err != nil {
		return err
	}
	if err := o.Report(stdout, compared, results); err != nil || o.plot == "" {
		return err
	}
	return drawLoad(o, compared, results)
}

// drawLoad draws the runs of the first seed.
func drawLoad(o options, compared []service.Strategy, results [][]service.Result) error {
	lines := make([]chart.Line, len(compared))
	for i, c := range compared {
		lines[i] = chart.Line{Name: c.Name, Result: results[i][0]}
	}
	var svg strings.Builder
	if err := chart.Load(&svg, o.Scenario, lines); err != nil {
		return err
	}
	return write("plot", o.plot, svg.String())
}

// write writes the file that a flag names.
func write(name, file, content string) error {
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		return fmt.Errorf("-%s: %w", name, err)
	}
	return nil
}

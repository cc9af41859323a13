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
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/lab/storm/chart"
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

// options is what the flags say.
type options struct {
	*compare.Options
	plot, reproduce string
}

// parse reads the flags. It prints them to help if they ask for it.
func parse(args []string, help io.Writer) (options, error) {
	o := options{Options: compare.New()}
	var policy string
	f := flag.NewFlagSet("storm", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are for the caller
	f.StringVar(&policy, "policy", "", "`file` with the JSON form of a retry.Policy (default: "+o.Policy.String()+")")
	o.Flags(f)
	f.StringVar(&o.plot, "plot", "", "`file` for a drawing of the load, in SVG")
	f.StringVar(&o.reproduce, "reproduce", "", "write the tables of docs/evidence/storms.md to `file`, and nothing else")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(help)
			f.PrintDefaults()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: there are flags only, no arguments", f.Arg(0))
	}
	err := o.Check("-")
	if policy != "" {
		if policyErr := o.readPolicy(policy); policyErr != nil {
			err = errors.Join(err, fmt.Errorf("-policy: %s: %w", policy, policyErr))
		}
	}
	return o, err
}

func (o *options) readPolicy(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Unwrap(err) // its text has the name of the file again
	}
	o.Policy = retry.Policy{}
	return o.Policy.UnmarshalJSON(data)
}

// The text of docs/evidence/storms.md. A line {{name}} stands for the table of that name.
//
//go:embed storms.md
var document string

var tables = map[string]func() (string, error){
	"contract":   contractTable,
	"stall":      stallTable,
	"budgets":    budgetsTable,
	"faults":     faultTables,
	"partial":    partialTable,
	"hints":      hintTables,
	"law":        lawTable,
	"calls":      func() (string, error) { return contentionTable(calls), nil },
	"completion": func() (string, error) { return contentionTable(completion), nil },
}

// reproduce writes the document with all its tables.
func reproduce(w io.Writer) error {
	for line := range strings.Lines(document) {
		name, isTable := strings.CutPrefix(strings.TrimSpace(line), "{{")
		if isTable {
			table, ok := tables[strings.TrimSuffix(name, "}}")]
			if !ok {
				return fmt.Errorf("storms.md: no table %s", name)
			}
			var err error
			if line, err = table(); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// markdown is a table in the making.
type markdown struct{ strings.Builder }

// head begins a table: text in the first column, figures in the others.
func (m *markdown) head(columns ...string) {
	m.row(columns...)
	rule := slices.Repeat([]string{"---:"}, len(columns))
	rule[0] = "---"
	m.row(rule...)
}

func (m *markdown) row(cells ...string) {
	m.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// seedsPerCell is how many runs are behind each figure of the service.
const seedsPerCell = 5

// measure runs s under the strategy with so many clients.
func measure(s service.Scenario, clients int, strategy service.Strategy) (service.Summary, error) {
	s.Clients = clients
	results, err := service.RunSeeds(s, strategy, seedsPerCell)
	if err != nil {
		return service.Summary{}, err
	}
	return service.Summarize(results), nil
}

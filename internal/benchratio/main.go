// Command benchratio reads the output of go test -bench and prints what things
// done by this library cost in comparison with the same done by hand:
//
//	go test -run '^$' -bench . | go run ./internal/benchratio
//
// A benchmark is compared if it has the two sub-benchmarks by=hand and by=retry.
// Where the input has several rounds, the ratio is the median of the ratios
// within each round, so that a machine that slows down for a while falls on both.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchratio:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	rows, err := read(in)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("there is no benchmark in the input")
	}
	return write(out, rows)
}

// row is what was measured for one benchmark, one value per round.
type row struct {
	name   string
	hand   []float64 // ns per operation
	retry  []float64 // likewise
	allocs []float64 // of retry
}

// line is a result. The suffix is GOMAXPROCS, which is left out if it is 1.
var line = regexp.MustCompile(`^Benchmark(\S+?)(/by=(?:hand|retry))?(?:-\d+)?\s+\d+\s+([0-9.e+]+) ns/op(.*)$`)

var allocs = regexp.MustCompile(`\s([0-9]+) allocs/op`)

// read returns the rows in the order of the input.
func read(in io.Reader) ([]*row, error) {
	var rows []*row
	byName := map[string]*row{}
	for s := bufio.NewScanner(in); ; {
		if !s.Scan() {
			return rows, s.Err()
		}
		m := line.FindStringSubmatch(s.Text())
		if m == nil {
			if strings.HasPrefix(s.Text(), "--- FAIL") || s.Text() == "FAIL" {
				return nil, errors.New("the benchmarks failed")
			}
			continue
		}
		ns, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		r := byName[m[1]]
		if r == nil {
			r = &row{name: m[1]}
			byName[r.name] = r
			rows = append(rows, r)
		}
		if m[2] == "/by=hand" {
			r.hand = append(r.hand, ns)
			continue
		}
		r.retry = append(r.retry, ns)
		if m := allocs.FindStringSubmatch(m[4]); m != nil {
			n, _ := strconv.ParseFloat(m[1], 64) // digits only
			r.allocs = append(r.allocs, n)
		}
	}
}

func write(out io.Writer, rows []*row) error {
	table := &strings.Builder{}
	fmt.Fprintln(table, "by hand ns\tretry ns\tratio\tallocs\t  benchmark")
	for _, r := range rows {
		hand, ratio, count := "", "", ""
		if len(r.hand) > 0 {
			if len(r.hand) != len(r.retry) {
				return fmt.Errorf("%s: %d rounds by hand and %d by retry", r.name, len(r.hand), len(r.retry))
			}
			ratios := make([]float64, len(r.hand))
			for i := range ratios {
				ratios[i] = r.retry[i] / r.hand[i]
			}
			hand, ratio = fmt.Sprintf("%.1f", median(r.hand)), fmt.Sprintf("%.2f", median(ratios))
		}
		if len(r.allocs) > 0 {
			count = fmt.Sprintf("%.0f", slices.Max(r.allocs))
		}
		fmt.Fprintf(table, "%s\t%.1f\t%s\t%s\t  %s\n", hand, median(r.retry), ratio, count, r.name)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(w, table.String()); err != nil {
		return err
	}
	return w.Flush()
}

// median returns the middle value, or the mean of the two in the middle.
func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

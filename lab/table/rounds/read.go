// Package rounds reads the raw output of several rounds of benchmarks, and writes
// what it says as Markdown.
//
// A round is one run of all benchmarks of a package. Only figures of one round are
// compared with each other, because they saw the same machine.
package rounds

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/lab/peers"
)

// byHand is the contestant that the others are compared with.
const byHand = "hand"

// Data is what the input says.
type Data struct {
	metric    string
	workloads []*workload       // in the order of the input
	machine   map[string]string // goos, goarch, cpu, go, and the cores
}

// workload is one benchmark, with one result per contestant and round.
type workload struct {
	name  string
	peers map[string][]result // by contestant; the index is the round
}

// result is one line of the input: values by their units.
type result map[string]float64

// New returns the data of no input yet. The metric is the unit of what is compared.
func New(metric string) *Data { return &Data{metric: metric, machine: map[string]string{}} }

// Load returns the checked data of a file.
func Load(metric, file string) (*Data, error) {
	d := New(metric)
	if err := d.ReadFile(file); err != nil {
		return nil, err
	}
	return d, d.Check()
}

// ReadFile adds a file.
func (d *Data) ReadFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return d.Read(name, f)
}

var (
	// The number at the end of a name is GOMAXPROCS, which some leave out.
	benchmark = regexp.MustCompile(`^Benchmark(\S+)/by=([^\s/]+?)(?:-(\d+))?\s+\d+\s+(\S.*)$`)
	setting   = regexp.MustCompile(`^(goos|goarch|pkg|cpu|go):\s+(.*)$`)
	ended     = regexp.MustCompile(`^(PASS|ok\s.*|\s*)$`)
)

// Read adds an input, in which all benchmarks must have the same number of rounds.
func (d *Data) Read(name string, in io.Reader) error {
	rounds := map[string]int{} // by benchmark and contestant
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		m := benchmark.FindStringSubmatch(line)
		if m == nil {
			if err := d.other(line); err != nil {
				return fmt.Errorf("%s:%d: %w", name, n, err)
			}
			continue
		}
		values, err := parse(m[4])
		if err == nil && m[3] != "" {
			err = d.same("cores", m[3])
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if _, ok := values[d.metric]; ok {
			rounds[m[1]+"/by="+m[2]]++
			w := d.workload(m[1])
			w.peers[m[2]] = append(w.peers[m[2]], values)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return sameRounds(name, rounds)
}

// sameRounds finds out whether a run was cut off.
func sameRounds(name string, rounds map[string]int) error {
	most := 0
	for _, n := range rounds {
		most = max(most, n)
	}
	var missing []string
	for benchmark, n := range rounds {
		if n < most {
			missing = append(missing, fmt.Sprintf("%s has %d", benchmark, n))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s: of %d rounds, %s", name, most, strings.Join(missing, ", "))
}

// other reads a line that is not a result.
func (d *Data) other(line string) error {
	switch m := setting.FindStringSubmatch(line); {
	case ended.MatchString(line):
		return nil
	case m == nil:
		return fmt.Errorf("not the output of benchmarks that passed: %q", line)
	case m[1] == "pkg":
		return nil
	default:
		return d.same(m[1], m[2])
	}
}

// same notes what the input says of the machine, which must always be the same.
func (d *Data) same(key, value string) error {
	if known, ok := d.machine[key]; ok && known != value {
		return fmt.Errorf("another machine: %s %q after %q", key, value, known)
	}
	d.machine[key] = value
	return nil
}

// parse reads pairs of values and units.
func parse(text string) (result, error) {
	fields := strings.Fields(text)
	if len(fields)%2 != 0 {
		return nil, fmt.Errorf("a value without a unit in %q", text)
	}
	values := result{}
	for pair := range slices.Chunk(fields, 2) {
		v, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			return nil, err
		}
		values[pair[1]] = v
	}
	return values, nil
}

func (d *Data) workload(name string) *workload {
	for _, w := range d.workloads {
		if w.name == name {
			return w
		}
	}
	w := &workload{name: name, peers: map[string][]result{}}
	d.workloads = append(d.workloads, w)
	return w
}

// Check finds out what is missing altogether.
func (d *Data) Check() error {
	if len(d.workloads) == 0 {
		return fmt.Errorf("there is no benchmark with %s in the input", d.metric)
	}
	for _, w := range d.workloads {
		if len(w.peers) > 1 && w.peers[byHand] == nil {
			return fmt.Errorf("%s: there is nothing by=%s to compare with", w.name, byHand)
		}
		for _, hand := range w.peers[byHand] {
			if hand[d.metric] <= 0 {
				return fmt.Errorf("%s: %s by=%s is %v: there is no ratio to that", w.name, d.metric, byHand, hand[d.metric])
			}
		}
		for _, known := range peers.Workloads() {
			if known.Name != w.name {
				continue
			}
			if err := w.complete(known); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *workload) complete(known *peers.Workload) error {
	expected := map[string]bool{}
	for _, c := range peers.Contestants() {
		expected[c.Name] = known.Takes(c)
		if expected[c.Name] && w.peers[c.Name] == nil {
			return fmt.Errorf("%s: by=%s is missing", w.name, c.Name)
		}
	}
	for by := range w.peers {
		if !expected[by] {
			return fmt.Errorf("%s: by=%s should not be there", w.name, by)
		}
	}
	return nil
}

// Row is one contestant in one workload.
type Row struct {
	By string

	// Ratio is the median of the metric compared with that of the loop by hand in
	// the same round, Least and Largest are the extremes. They are 0 if there is no
	// loop by hand.
	Ratio, Least, Largest float64

	Medians map[string]float64 // by unit
}

// Rows returns the contestants of a workload, the best first, or nil if there is no
// such workload.
func (d *Data) Rows(workload string) []Row {
	for _, w := range d.workloads {
		if w.name == workload {
			return w.rows(d.metric)
		}
	}
	return nil
}

// rows returns the contestants, the best first.
func (w *workload) rows(metric string) []Row {
	var rows []Row
	for _, by := range slices.Sorted(maps.Keys(w.peers)) {
		results := w.peers[by]
		r := Row{By: by, Medians: medians(results)}
		if hand := w.peers[byHand]; hand != nil {
			ratios := make([]float64, len(results))
			for round := range results {
				ratios[round] = results[round][metric] / hand[round][metric]
			}
			r.Ratio, r.Least, r.Largest = median(ratios), slices.Min(ratios), slices.Max(ratios)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Ratio, b.Ratio) })
	return rows
}

func medians(results []result) result {
	all := map[string][]float64{}
	for _, r := range results {
		for unit, v := range r {
			all[unit] = append(all[unit], v)
		}
	}
	m := result{}
	for unit, values := range all {
		m[unit] = median(values)
	}
	return m
}

// median returns the middle value, or the mean of the two in the middle.
func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

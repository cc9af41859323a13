// Command quota simulates a backlog of jobs behind an API with a limit that nobody knows: 1,000
// jobs, four processes with 25 places each, and what was before it. Each job heeds the hint of its
// own refusal, or each process has a limiter that learns. It prints the tables, and one of what was
// measured in real processes, or writes them into the page of its argument.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
	"github.com/seed-5ff3c98e/retry/lab/quota/backlog"
	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

const seeds = 3

// rawFile is what was measured.
const rawFile = "raw/quota.txt"

// A page has each table between its source and this.
const end = "<!-- end -->\n"

// splice puts the tables into the text of the page.
func splice(text, raw string) (string, error) {
	measured, err := processes(raw)
	if err != nil {
		return "", err
	}
	for _, t := range []struct{ from, table string }{
		{"<!-- from lab/quota -->\n", simulated()}, {"<!-- from lab/" + rawFile + " -->\n", measured},
	} {
		head, rest, found := strings.Cut(text, t.from)
		_, tail, ended := strings.Cut(rest, end)
		if !found || !ended {
			return "", fmt.Errorf("no place for a table: %s", t.from)
		}
		text = head + t.from + "\n" + t.table + "\n" + end + tail
	}
	return text, nil
}

// simulated are tables of means of some seeds: the servers, and what was before a batch.
func simulated() string {
	var b strings.Builder
	for _, t := range []struct {
		title  string
		scenes []scene.Scene
	}{{"1,000 jobs, 4 processes × 25 places", scene.Servers()}, {"before, and the last batch", scene.Demands()}} {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("| " + t.title + " |")
		for _, r := range backlog.Rivals() {
			b.WriteString(" " + r.Name + " |")
		}
		b.WriteString("\n|---|" + strings.Repeat("--:|", len(backlog.Rivals())) + "\n")
		for _, s := range t.scenes {
			b.WriteString("| " + s.Name + " |")
			for _, r := range backlog.Rivals() {
				m := mean(s, r)
				fmt.Fprintf(&b, " %.2f / %s |", m.Refused, times(m.Ratio))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// times prints a ratio.
func times(ratio float64) string {
	if ratio >= 100 {
		return "> 100"
	}
	return fmt.Sprintf("%.2f", ratio)
}

func mean(s scene.Scene, rival backlog.Rival) (m scene.Result) {
	for seed := range uint64(seeds) {
		r := scene.Run(s, rival.New, seed)
		m.Refused += r.Refused / seeds
		m.Ratio += r.Ratio / seeds
	}
	return m
}

// processes is a table of medians, by limit, and who is refused most comes first.
func processes(raw string) (string, error) {
	const refused, time, transactions, others = "refused/job", "of-ideal", "transactions/job", "of-others-alone"
	data := rounds.New(refused)
	if err := data.ReadFile(raw); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, t := range []struct{ workload, title string }{
		{"Quota/jobs=1000/limit=50_in_2s", "1,000 jobs, 50 in 2 s"},
		{"Quota/jobs=1000/limit=25_in_2s", "1,000 jobs, 25 in 2 s"},
		{"Quota/jobs=10000/limit=500_in_20s", "10,000 jobs, 500 in 20 s"},
		{"Quota/jobs=1000/limit=50_in_2s,_503", "1,000 jobs, 50 in 2 s, 503 with Retry-After"},
		{"Quota/jobs=1000/limit=50_in_2s,_one,_in_ms", "1,000 jobs, one each 40 ms, hints in ms"},
		{"Quota/jobs=1000/limit=50_in_2s,_one", "1,000 jobs, one each 40 ms, hints in seconds"},
		{"Quota/jobs=1000/limit=50_in_2s,_one,_and_says", "1,000 jobs, one each 40 ms, each success says that nothing is left"},
		{"Quota/jobs=500/limit=50_in_2s,_after_30_in_1m30s_and_0s", "30 jobs in 90 s, then 500; 50 in 2 s"},
		{"Quota/jobs=1000/limit=50_in_2s,_after_100_in_10s_and_1m0s", "100 jobs in 10 s, a minute without, then 1,000; 50 in 2 s"},
	} {
		rows := data.Rows(t.workload)
		if len(rows) == 0 {
			return "", fmt.Errorf("%s: no %s", raw, t.workload)
		}
		slices.SortStableFunc(rows, func(a, b rounds.Row) int { return cmp.Compare(b.Medians[refused], a.Medians[refused]) })
		if b.Len() == 0 {
			fmt.Fprintf(&b, "%s\n\n| | refused a job | time / ideal | transactions a job | other jobs: speed / alone |\n|---|--:|--:|--:|--:|\n", data.Machine()+".")
		}
		fmt.Fprintf(&b, "| *%s* | | | | |\n", t.title)
		for _, r := range rows {
			by := strings.ReplaceAll(r.By, "_", " ")
			fmt.Fprintf(&b, "| %s | %.2f | %.2f | %s | %s |\n", by, r.Medians[refused], r.Medians[time],
				figure(r, transactions), figure(r, others))
		}
	}
	return b.String(), nil
}

// figure is a median, if there is one.
func figure(r rounds.Row, unit string) string {
	v, ok := r.Medians[unit]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

// run prints the tables, or writes them into a page.
func run(pages []string) error {
	if len(pages) == 0 {
		measured, err := processes(rawFile)
		fmt.Fprint(os.Stdout, simulated()+"\n"+measured)
		return err
	}
	text, err := os.ReadFile(pages[0])
	if err != nil {
		return err
	}
	now, err := splice(string(text), rawFile)
	if err != nil {
		return fmt.Errorf("%s: %w", pages[0], err)
	}
	return os.WriteFile(pages[0], []byte(now), 0o600)
}

package rounds

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/lab/httppeers"
	"github.com/seed-5ff3c98e/retry/lab/peers"
)

// Write writes where it was measured, the legend, and all tables.
func (d *Data) Write(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s.\n\n%s\n\n%s", d.Machine(), Legend, d.Tables())
	return err
}

// Legend explains a column of the tables.
const Legend = "Checks context: *yes*, no attempt is made once the context has ended; *not first*, one is made " +
	"if it had ended before the call; *only first*, one may be made if it ends during the call; *no*, both."

// Machine says what the figures were measured on.
func (d *Data) Machine() string {
	parts := []string{d.machine["goos"] + "/" + d.machine["goarch"]}
	for _, key := range []string{"cpu", "go"} {
		if v := d.machine[key]; v != "" {
			parts = append(parts, v)
		}
	}
	if cores := d.machine["cores"]; cores != "" {
		parts = append(parts, "GOMAXPROCS "+cores)
	}
	return strings.Join(parts, ", ")
}

// Tables returns a table for every workload, the best contestant first.
func (d *Data) Tables() string {
	var text strings.Builder
	for i, w := range d.workloads {
		if i > 0 {
			text.WriteByte('\n')
		}
		d.table(&text, w)
	}
	return text.String()
}

func (d *Data) table(text *strings.Builder, w *workload) {
	rows := w.rows(d.metric)
	fmt.Fprintf(text, "### %s\n\n%s\n\n", w.name, w.about(rows))
	columns := d.columns(w)
	shown := columns[:0]
	for _, c := range columns {
		if slices.ContainsFunc(rows, func(r Row) bool { return c.cell(r) != "" }) {
			shown = append(shown, c)
		}
	}
	for _, c := range shown {
		text.WriteString("| " + c.head + " ")
	}
	text.WriteString("|\n")
	for _, c := range shown {
		text.WriteString("|" + c.align)
	}
	text.WriteString("|\n")
	for _, r := range rows {
		for _, c := range shown {
			text.WriteString("| " + c.cell(r) + " ")
		}
		text.WriteString("|\n")
	}
}

// Ratios returns one table with a row for every workload: the cost of each contestant compared with
// that of the loop by hand.
func (d *Data) Ratios() string {
	var names []string
	for _, w := range d.workloads {
		for _, r := range w.rows(d.metric) {
			if !slices.Contains(names, r.By) {
				names = append(names, r.By)
			}
		}
	}
	var text strings.Builder
	text.WriteString("| × hand | " + strings.Join(names, " | ") + " |\n|---|" + strings.Repeat("--:|", len(names)) + "\n")
	for _, w := range d.workloads {
		rows := w.rows(d.metric)
		text.WriteString("| " + w.name)
		for _, name := range names {
			cell := "–"
			if i := slices.IndexFunc(rows, func(r Row) bool { return r.By == name }); i >= 0 {
				cell = three(rows[i].Ratio)
			}
			text.WriteString(" | " + cell)
		}
		text.WriteString(" |\n")
	}
	return text.String()
}

// besides returns the units that a table has besides its metric.
func (d *Data) besides() []string {
	units := []string{"stack-B/sleeper", "B/op", "allocs/op", "goroutines-left", "p99-ns"}
	return slices.DeleteFunc(units, func(unit string) bool { return unit == d.metric })
}

type column struct {
	head, align string
	cell        func(Row) string
}

// columns returns all that a table may have. Those without a cell are left out.
func (d *Data) columns(w *workload) []column {
	const left, right = "---", "--:"
	columns := []column{
		{"by", left, func(r Row) string { return r.By }},
		{"× hand", right, func(r Row) string { return r.ifCompared(three(r.Ratio)) }},
		{"min–max", right, func(r Row) string { return r.ifCompared(three(r.Least) + "–" + three(r.Largest)) }},
	}
	for _, unit := range append([]string{d.metric}, d.besides()...) {
		columns = append(columns, column{unit, right, func(r Row) string {
			if v, ok := r.Medians[unit]; ok {
				return whole(v)
			}
			return ""
		}})
	}
	return append(columns,
		column{"checks context", left, func(r Row) string { return checksContext(r.By) }},
		column{"note", left, func(r Row) string { return note(w.name, r.By) }})
}

func (r Row) ifCompared(cell string) string {
	if r.Ratio == 0 {
		return ""
	}
	return cell
}

// about says what the workload is, how often it was measured, and who is not in it.
func (w *workload) about(rows []Row) string {
	text := "1 round."
	if n := len(w.peers[rows[0].By]); n > 1 {
		text = fmt.Sprintf("%d rounds.", n)
	}
	for _, known := range peers.Workloads() {
		if known.Name != w.name {
			continue
		}
		text = strings.ToUpper(known.Title[:1]) + known.Title[1:] + ". " + text
		var absent []string
		for _, c := range peers.Contestants() {
			if !known.Takes(c) {
				absent = append(absent, c.Name)
			}
		}
		if len(absent) > 0 {
			text += " Not to be had from: " + strings.Join(absent, ", ") + "."
		}
	}
	return text
}

// three prints three digits, and all of those before the point.
func three(x float64) string {
	digits := 0
	switch {
	case x < 10:
		digits = 2
	case x < 100:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// whole is three for what is often counted: an integer has no point.
func whole(x float64) string {
	if x == math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return three(x)
}

func checksContext(by string) string {
	for _, c := range peers.Contestants() {
		if c.Name == by {
			return c.ChecksContext()
		}
	}
	return ""
}

func note(workload, by string) string {
	for _, c := range peers.Contestants() {
		if c.Name == by {
			return c.Note(workload)
		}
	}
	for _, p := range httppeers.Peers() {
		if p.Name == by {
			return p.Note
		}
	}
	return ""
}

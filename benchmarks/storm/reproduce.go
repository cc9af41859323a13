package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

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

package main

import (
	"fmt"
	"os"
	"strings"
)

// readRows reads a table with a line of headings.
func readRows(name string, columns int) ([][]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		row := strings.Split(line, "\t")
		if len(row) != columns {
			return nil, fmt.Errorf("%s:%d: %d columns, not %d", name, i+1, len(row), columns)
		}
		if i > 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// writeRows writes the rows of a table anew, under the headings that it has.
func writeRows(name string, rows [][]string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	headings, _, _ := strings.Cut(string(text), "\n")
	var b strings.Builder
	b.WriteString(headings + "\n")
	for _, row := range rows {
		b.WriteString(strings.Join(row, "\t") + "\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

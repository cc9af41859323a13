package retrypolicies

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File string // its name; empty if it is not known

	// Line and Column say where, from 1 on; columns count characters. They are 0
	// where that is not known: in YAML, whose library knows, and for what is
	// missing.
	Line, Column int

	// Path leads to the value by keys and, in lists, indexes from 0 on:
	// "policies", "payments", "backoff", "schedule", "2". A value that is inherited
	// from the default has the path, the line and the column of the heir.
	Path []string

	// Problem names the value and says what is wrong with it.
	Problem string
}

// String returns "policies.json:4:7: policies.payments.max_attempts: -1: must be at least 1…".
func (f Fault) String() string {
	switch {
	case f.Line == 0 && f.File == "":
		return f.Problem
	case f.Line == 0:
		return f.File + ": " + f.Problem
	case f.File == "":
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Problem)
	default:
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Problem)
	}
}

// InvalidError is returned where a file has faults, and has all of them in their
// order.
type InvalidError struct {
	Faults []Fault
}

// Error returns the faults, one in a line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return "retrypolicies: " + strings.Join(lines, "\n")
}

// faults collects what is wrong with one file.
type faults struct {
	file string
	list []Fault
}

// add notes a fault at the node that path leads to.
func (fs *faults) add(at *node, path []string, problem string) {
	f := Fault{File: fs.file, Path: slices.Clone(path), Problem: problem}
	if at != nil {
		f.Line, f.Column = at.line, at.column
	}
	fs.list = append(fs.list, f)
}

func (fs *faults) err() error {
	if len(fs.list) == 0 {
		return nil
	}
	slices.SortStableFunc(fs.list, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return &InvalidError{fs.list}
}

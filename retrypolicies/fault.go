package retrypolicies

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File string // its name; empty if it is not known

	// Line and Column say where the fault is, from 1 on; columns count characters.
	// For a missing value they say where it belongs. They are 0 if the place is not
	// known: in YAML, only the YAML library knows it.
	Line, Column int

	// Path leads to the value by keys and, in lists, indexes from 0 on:
	// "policies", "payments", "backoff", "schedule", "2". For a value that is
	// inherited from the default, the path, the line and the column lead to the
	// policy that inherits it.
	Path []string

	// Problem names the value and says what is wrong with it.
	Problem string
}

// String returns "policies.json:4:7: policies.payments.max_attempts: -1: must be at least 1…",
// in one line: what cannot be printed is escaped, and what is long is cut off.
func (f Fault) String() string {
	const most = 1000 // bytes: a file may be a stranger's, and its name too
	file, problem := show.Name(f.File, most), show.Name(f.Problem, most)
	switch {
	case f.Line == 0 && f.File == "":
		return problem
	case f.Line == 0:
		return file + ": " + problem
	case f.File == "":
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, problem)
	default:
		return fmt.Sprintf("%s:%d:%d: %s", file, f.Line, f.Column, problem)
	}
}

// InvalidError is the error of a file that has faults. It has all faults in their order.
// If there are more than 100, it has the first 100 that were found. Before these there is
// then one more Fault, without a place, which says so.
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
	data []byte // the file; nil if it is not known
	list []Fault
	more bool // than strictjson.MostFaults
}

// add notes a fault of the value that path leads to.
func (fs *faults) add(path []string, problem string) {
	if len(fs.list) == strictjson.MostFaults {
		fs.more = true
		return
	}
	fs.list = append(fs.list, Fault{File: fs.file, Path: slices.Clone(path), Problem: problem})
}

// err returns the faults with their places.
func (fs *faults) err() error {
	if len(fs.list) == 0 {
		return nil
	}
	if fs.data != nil {
		fs.locate()
	}
	slices.SortStableFunc(fs.list, func(a, b Fault) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	if fs.more {
		fs.list = slices.Insert(fs.list, 0, Fault{
			File: fs.file, Problem: fmt.Sprintf("has more faults than these %d", strictjson.MostFaults),
		})
	}
	return &InvalidError{fs.list}
}

func (fs *faults) locate() {
	paths := make([][]string, len(fs.list))
	for i, f := range fs.list {
		paths[i] = f.Path
	}
	for i, place := range strictjson.Places(fs.data, paths) {
		fs.list[i].Line, fs.list[i].Column = place.Line, place.Column
	}
}

// unreadable returns the error of a text that is not JSON.
func (fs *faults) unreadable(err *strictjson.Error) error {
	f := Fault{File: fs.file, Problem: err.Error()}
	if fs.data != nil {
		place := strictjson.PlaceOf(fs.data, err.Offset)
		f.Line, f.Column = place.Line, place.Column
		if looksLikeYAML(fs.data) {
			f.Problem += "; YAML is read by a YAML library, as yaml.Unmarshal(data, &policies)"
		}
	}
	return &InvalidError{[]Fault{f}}
}

// looksLikeYAML reports whether a text that is no JSON begins with a key, a comment or the like.
func looksLikeYAML(data []byte) bool {
	text := bytes.TrimSpace(data)
	return len(text) > 0 && bytes.IndexByte([]byte(`{["`), text[0]) < 0 && bytes.Contains(text, []byte(":"))
}

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/token"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// The exit codes, whatever the format.
const (
	clean          = 0 // all was checked, and nothing was found
	notChecked     = 1 // something could not be checked, whatever was found
	wrongArguments = 2
	found          = 3 // all was checked, and something was found
)

// result is what a run found, and what kept it from checking packages.
type result struct {
	graph      *checker.Graph
	findings   []finding // by position
	faults     []fault
	notChecked []string // packages
}

type finding struct {
	at             token.Position
	check, message string
}

// fault is an error of a package. Its position is as packages has it, and may be empty.
type fault struct{ pkg, at, message string }

func (f fault) String() string {
	if f.at == "" || f.at == "-" {
		return f.message
	}
	return f.at + ": " + f.message
}

// report checks packages and prints what it finds. It returns the exit code.
func report(o *options) int {
	r := run(o)
	for _, f := range r.faults {
		fmt.Fprintln(os.Stderr, f)
	}
	for _, pkg := range r.notChecked {
		fmt.Fprintf(os.Stderr, "retryvet: %s was not checked: see its errors above\n", pkg)
	}
	var err error
	switch {
	case o.sarif:
		err = r.writeSARIF(os.Stdout)
	case o.json:
		err = r.writeJSON(os.Stdout)
	default:
		err = r.writeText(os.Stderr)
	}
	switch {
	case err != nil:
		log.Print(err)
		return notChecked
	case len(r.faults) > 0:
		return notChecked
	case len(r.findings) > 0:
		return found
	}
	return clean
}

// run checks the packages that compile. The others do not keep it from that: a package that
// imports one of them is checked if it has no error of its own.
func run(o *options) *result {
	r := &result{graph: &checker.Graph{}}
	config := &packages.Config{Mode: packages.LoadSyntax | packages.NeedModule}
	loaded, err := packages.Load(config, o.patterns...)
	if err == nil && len(loaded) == 0 {
		err = fmt.Errorf("%s: no packages match", strings.Join(o.patterns, " "))
	}
	if err != nil {
		r.faults = []fault{{message: "retryvet: " + err.Error()}}
		return r
	}
	packages.Visit(loaded, nil, r.addFaults)
	var sound []*packages.Package
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			r.notChecked = append(r.notChecked, p.ID)
			continue
		}
		p.IllTyped = false // what it imports may be
		sound = append(sound, p)
	}
	if r.graph, err = checker.Analyze(o.checks(), sound, nil); err != nil {
		log.Fatal(err) // a check is wrong, and not what it checks
	}
	for _, act := range r.graph.Roots {
		if act.Err != nil {
			r.faults = append(r.faults, fault{pkg: act.Package.ID, message: act.Analyzer.Name + ": " + act.Err.Error()})
		}
		for _, d := range act.Diagnostics {
			r.findings = append(r.findings, finding{act.Package.Fset.Position(d.Pos), act.Analyzer.Name, d.Message})
		}
	}
	slices.SortStableFunc(r.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return r
}

// addFaults adds the errors of a package, each once.
func (r *result) addFaults(p *packages.Package) {
	for _, e := range p.Errors {
		f := fault{p.ID, e.Pos, strings.TrimSpace(e.Msg)}
		if !repeats(e, p.Errors) && !slices.Contains(r.faults, f) {
			r.faults = append(r.faults, f)
		}
	}
}

// repeats reports whether an error is the output of the compiler, under a line with the package,
// and other errors say the same.
func repeats(e packages.Error, all []packages.Error) bool {
	return strings.HasPrefix(e.Msg, "# ") && slices.ContainsFunc(all, func(other packages.Error) bool {
		return other.Kind == packages.ParseError || other.Kind == packages.TypeError && strings.Contains(e.Msg, other.Msg)
	})
}

func (r *result) writeText(w io.Writer) error {
	var text strings.Builder
	for _, f := range r.findings {
		fmt.Fprintf(&text, "%s: %s: %s\n", f.at, f.check, f.message)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeJSON writes the form of golang.org/x/tools: by package, by check, a list of findings or
// an error. A package that was not checked has one error, by the name of this program.
func (r *result) writeJSON(w io.Writer) error {
	var text bytes.Buffer
	if err := r.graph.PrintJSON(&text); err != nil {
		return err
	}
	tree := map[string]map[string]any{}
	if err := json.Unmarshal(text.Bytes(), &tree); err != nil {
		return err
	}
	for _, f := range r.faults {
		errs := tree[f.pkg]["retryvet"]
		message := f.String()
		if e, ok := errs.(map[string]string); ok {
			message = e["error"] + "\n" + message
		}
		tree[f.pkg] = map[string]any{"retryvet": map[string]string{"error": message}}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "\t")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(tree)
}

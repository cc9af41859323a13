package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/token"
	"io"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/chavacava/garif"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
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
	findings []finding // by position
	faults   []fault
	notes    []string // on packages that were not checked, or not in whole
}

type finding struct {
	pkg            string
	at, end        token.Position
	check, message string
	partly         bool // the package does not compile
}

// text is what a finding says, also of itself.
func (f finding) text() string {
	if f.partly {
		return f.message + " (seen in code that does not compile)"
	}
	return f.message
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
	for _, note := range r.notes {
		fmt.Fprintln(os.Stderr, "retryvet: "+note)
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

// run checks packages. One that does not compile is checked as far as it has types, and keeps
// none that imports it from being checked.
func run(o *options) *result {
	r := &result{}
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
	var checked []*packages.Package
	for _, p := range loaded {
		switch {
		case len(p.Errors) == 0:
		case p.Types == nil || p.TypesInfo == nil || len(p.Syntax) == 0:
			r.notes = append(r.notes, p.ID+" was not checked: see its errors above")
			continue
		default:
			r.notes = append(r.notes, p.ID+" was checked only as far as it compiles: see its errors above")
		}
		p.IllTyped = false // it is checked nevertheless
		checked = append(checked, p)
	}
	graph, err := checker.Analyze(o.checks(), checked, nil)
	if err != nil {
		log.Fatal(err) // a check is wrong, and not what it checks
	}
	for _, act := range graph.Roots {
		p := act.Package
		if f, failed := faultOf(act); failed && len(p.Errors) == 0 && !slices.Contains(r.faults, f) {
			r.faults = append(r.faults, f)
		}
		for _, d := range act.Diagnostics {
			r.findings = append(r.findings, finding{
				pkg: p.ID, at: p.Fset.Position(d.Pos), end: p.Fset.Position(d.End), check: act.Analyzer.Name, message: d.Message, partly: len(p.Errors) > 0,
			})
		}
	}
	slices.SortStableFunc(r.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return r
}

// faultOf returns why a check did not run: by itself, or because of what all checks need.
func faultOf(act *checker.Action) (fault, bool) {
	for _, dep := range act.Deps {
		if dep.Err != nil {
			act = dep
		}
	}
	if act.Err == nil {
		return fault{}, false
	}
	return fault{pkg: act.Package.ID, message: act.Analyzer.Name + ": " + act.Err.Error()}, true
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

// writeText writes a line for each finding, and then where each of their checks is explained.
func (r *result) writeText(w io.Writer) error {
	var text strings.Builder
	found := map[string]bool{}
	for _, f := range r.findings {
		fmt.Fprintf(&text, "%s: %s: %s\n", f.at, f.check, f.text())
		found[f.check] = true
	}
	for _, a := range checks.All() {
		if found[a.Name] {
			fmt.Fprintf(&text, "retryvet: %s is explained at %s\n", a.Name, a.URL)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// jsonFinding is a finding in the form of golang.org/x/tools, and where its check is explained.
type jsonFinding struct {
	Category string `json:"category"`
	Posn     string `json:"posn"`
	End      string `json:"end"`
	Message  string `json:"message"`
	URL      string `json:"url"`
}

// writeJSON writes the form of golang.org/x/tools: by package, by check, a list of findings or
// an error. A package that was not checked, or not in whole, has an error by the name of this
// program.
func (r *result) writeJSON(w io.Writer) error {
	tree := map[string]map[string]any{}
	of := func(pkg string) map[string]any {
		if tree[pkg] == nil {
			tree[pkg] = map[string]any{}
		}
		return tree[pkg]
	}
	for _, f := range r.findings {
		list, _ := of(f.pkg)[f.check].([]jsonFinding)
		of(f.pkg)[f.check] = append(list, jsonFinding{f.check, f.at.String(), f.end.String(), f.text(), pageOf(f.check)})
	}
	for _, f := range r.faults {
		message := f.String()
		if e, ok := of(f.pkg)["retryvet"].(map[string]string); ok {
			message = e["error"] + "\n" + message
		}
		of(f.pkg)["retryvet"] = map[string]string{"error": message}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "\t")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(tree)
}

// pageOf returns the address of the text that explains a check.
func pageOf(check string) string {
	all := checks.All()
	return all[slices.IndexFunc(all, func(a *analysis.Analyzer) bool { return a.Name == check })].URL
}

// writeSARIF writes the findings, and the errors of packages as notifications of the tool.
func (r *result) writeSARIF(w io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	driver := garif.NewDriver("retryvet").WithInformationUri("https://github.com/seed-5ff3c98e/retry/blob/main/docs/retryvet.md")
	for _, a := range checks.All() {
		doc, _, _ := strings.Cut(a.Doc, "\n")
		rule := garif.NewRule(a.Name).WithHelpUri(a.URL)
		rule.ShortDescription = garif.NewMultiformatMessageString(doc)
		driver.Rules = append(driver.Rules, rule)
	}
	run := garif.NewRun(garif.NewTool(driver))
	for _, f := range r.findings {
		run.WithResult(f.check, f.text(), uri(dir, f.at.Filename), f.at.Line, f.at.Column)
	}
	invocation := garif.NewInvocation(len(r.faults) == 0)
	for _, f := range r.faults {
		invocation.ToolExecutionNotifications = append(invocation.ToolExecutionNotifications, notification(dir, f))
	}
	run.Invocations = []*garif.Invocation{invocation}
	return write(garif.NewLogFile([]*garif.Run{run}, garif.Version210), w)
}

// notification says why a package was not checked.
func notification(dir string, f fault) *garif.Notification {
	message := garif.NewMessage()
	message.Text = f.message
	if f.pkg != "" {
		message.Text = f.pkg + ": " + f.message
	}
	n := garif.NewNotification(message)
	n.Level = "error"
	if file, line, column, ok := position(f.at); ok {
		n.Locations = []*garif.Location{garif.NewLocation().WithURI(uri(dir, file)).WithLineColumn(line, column)}
	}
	return n
}

// write writes a log with one run. The library leaves out results when there are none, but a run
// without results is one that did not happen.
func write(log *garif.LogFile, out io.Writer) error {
	if len(log.Runs[0].Results) > 0 {
		return log.PrettyWrite(out)
	}
	text, err := json.Marshal(log)
	if err != nil {
		return err
	}
	var all struct {
		Runs    []map[string]any `json:"runs"`
		Version string           `json:"version"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	all.Runs[0]["results"] = []any{}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

// uri returns a file as a reference, relative to the folder if it is in it.
func uri(dir, file string) string {
	if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
		file = rel
	}
	return (&url.URL{Path: filepath.ToSlash(file)}).String()
}

// position splits file:line:column; the file may have colons in it.
func position(at string) (file string, line, column int, ok bool) { //nolint:revive // a place has three parts
	parts := strings.Split(at, ":")
	n := len(parts)
	if n < 3 {
		return "", 0, 0, false
	}
	line, err1 := strconv.Atoi(parts[n-2])
	column, err2 := strconv.Atoi(parts[n-1])
	return strings.Join(parts[:n-2], ":"), line, column, err1 == nil && err2 == nil && line > 0 && column > 0
}

package main

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codeberg.org/chavacava/garif"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

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

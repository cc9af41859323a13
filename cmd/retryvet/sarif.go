package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/chavacava/garif"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// sarif runs this program with -json, and writes what it prints as SARIF. The driver of
// golang.org/x/tools has no such output. The exit code is 0 with findings too, as with -json.
func sarif(args []string, out io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append([]string{"-json"}, args...)...) //nolint:noctx // ends with the program
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	return convert(text, dir, out)
}

// convert makes SARIF of the JSON of multichecker: by package, by check, a list of findings or
// an error.
func convert(text []byte, dir string, out io.Writer) error {
	var packages map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &packages); err != nil {
		return fmt.Errorf("retryvet: -json printed no JSON: %w", err)
	}
	driver := garif.NewDriver("retryvet").WithInformationUri("https://github.com/seed-5ff3c98e/retry/blob/main/docs/retryvet.md")
	for _, a := range checks.All() {
		doc, _, _ := strings.Cut(a.Doc, "\n")
		rule := garif.NewRule(a.Name).WithHelpUri(a.URL)
		rule.ShortDescription = garif.NewMultiformatMessageString(doc)
		driver.Rules = append(driver.Rules, rule)
	}
	run := garif.NewRun(garif.NewTool(driver))
	var failed error
	for _, id := range slices.Sorted(maps.Keys(packages)) {
		for _, check := range slices.Sorted(maps.Keys(packages[id])) {
			if err := addResults(run, check, packages[id][check], dir); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %s: %w", id, check, err))
			}
		}
	}
	return errors.Join(failed, write(garif.NewLogFile([]*garif.Run{run}, garif.Version210), out))
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

// addResults adds the findings of one check in one package.
func addResults(run *garif.Run, check string, text json.RawMessage, dir string) error {
	var findings []struct{ Posn, Message string }
	if err := json.Unmarshal(text, &findings); err != nil {
		var failed struct{ Error string }
		if json.Unmarshal(text, &failed) != nil || failed.Error == "" {
			return err
		}
		return errors.New(failed.Error)
	}
	for _, f := range findings {
		file, line, column, err := position(f.Posn)
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
		run.WithResult(check, f.Message, filepath.ToSlash(file), line, column)
	}
	return nil
}

// position splits file:line:column; the file may have colons in it.
func position(posn string) (file string, line, column int, err error) { //nolint:revive // a place has three parts
	parts := strings.Split(posn, ":")
	if len(parts) < 3 {
		return "", 0, 0, fmt.Errorf("no position: %q", posn)
	}
	n := len(parts)
	line, err1 := strconv.Atoi(parts[n-2])
	column, err2 := strconv.Atoi(parts[n-1])
	return strings.Join(parts[:n-2], ":"), line, column, errors.Join(err1, err2)
}

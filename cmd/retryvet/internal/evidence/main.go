// Command evidence runs retryvet over public modules, and writes what it finds.
//
//	go run ./internal/evidence -dir /tmp/evidence        # all of modules.tsv
//	go run ./internal/evidence -dir /tmp/evidence heimdall
//	go run ./internal/evidence -dir /tmp/evidence -stale # those that other checks have run over
//	go run ./internal/evidence -table                    # only prints the tables
//
// modules.tsv lists modules and versions, which of them the checks were made with, and with which
// checks each was looked at. The go command downloads each of them and what it imports; nothing is
// compiled, and no test files are loaded. findings.tsv has every finding of the checks that are on
// by default. Two files are kept by hand: judged.tsv says of findings whether they are true, and
// loops.tsv says of loops which mistake is in them, written before the checks ran over them. The
// tables on standard output are made of the four.
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/analysis/checker"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", filepath.Join(os.TempDir(), "evidence"), "where to put the modules")
	data := flag.String("data", "internal/evidence", "where modules.tsv is")
	stale := flag.Bool("stale", false, "leave out modules that these checks have run over, and begin with those that had findings")
	only := flag.Bool("table", false, "look at no module")
	flag.Parse()
	e, err := readEvidence(*data)
	if err != nil {
		log.Fatal(err)
	}
	if !*only {
		if err := e.run(*dir, flag.Args(), *stale); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Print(e.table())
}

// evidence is what the four files have.
type evidence struct {
	data    string // where they are
	version string // of the checks as they are

	modules, findings, judged, loops [][]string
}

func readEvidence(data string) (*evidence, error) {
	e := &evidence{data: data}
	for _, file := range []struct {
		name    string
		rows    *[][]string
		columns int
	}{{"modules.tsv", &e.modules, 6}, {"findings.tsv", &e.findings, 5}, {"judged.tsv", &e.judged, 6}, {"loops.tsv", &e.loops, 5}} {
		rows, err := readRows(filepath.Join(data, file.name), file.columns)
		if err != nil {
			return nil, err
		}
		*file.rows = rows
	}
	var err error
	e.version, err = checksVersion(filepath.Join(data, "../../checks"))
	return e, err
}

// run looks at the modules whose path contains one of the words, or at all, and writes the
// files anew. What was found in the other modules stays.
func (e *evidence) run(dir string, words []string, stale bool) error {
	todo := e.modules
	if stale {
		todo = outdated(e.modules, e.findings, e.version)
	}
	l := newLoader()
	for _, m := range todo {
		module, release := m[0], m[1]
		if len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(module+"@"+release, w) }) {
			continue
		}
		start := time.Now()
		found, note, err := l.look(dir, module, release)
		if err != nil {
			note = "not analyzed: " + oneLine(err.Error())
		}
		log.Printf("%s %s@%s: %d findings in %s %s", time.Now().Format("15:04"), module, release, len(found), time.Since(start).Round(time.Second), note)
		m[4], m[5] = e.version, note
		e.findings = append(in(e.findings, func(f []string) bool { return f[0] != module || f[1] != release }), found...)
		slices.SortFunc(e.findings, slices.Compare)
		if err := e.write(); err != nil {
			return err
		}
	}
	return nil
}

func (e *evidence) write() error {
	if err := writeRows(filepath.Join(e.data, "findings.tsv"), e.findings); err != nil {
		return err
	}
	return writeRows(filepath.Join(e.data, "modules.tsv"), e.modules)
}

// checksVersion returns a name for the checks as they are in a folder. It stands with the modules that
// they have run over.
func checksVersion(dir string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:8], nil
}

// outdated returns the modules that other checks have run over, first those with findings.
func outdated(modules, findings [][]string, version string) [][]string {
	hits := map[string]int{}
	for _, f := range findings {
		hits[f[0]+"@"+f[1]]++
	}
	todo := in(modules, func(m []string) bool { return m[4] != version })
	slices.SortStableFunc(todo, func(a, b []string) int { return hits[b[0]+"@"+b[1]] - hits[a[0]+"@"+a[1]] })
	return todo
}

// look returns the findings in a module.
func (l *loader) look(dir, module, version string) (findings [][]string, note string, err error) {
	root, err := unpack(dir, module, version)
	if err != nil {
		return nil, "", err
	}
	loaded, err := l.load(root, aboutRetries.Match)
	if err != nil || len(loaded) == 0 {
		return nil, "nothing about retries", err
	}
	broken := 0
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			broken++ // checked as far as it compiles, as retryvet does
		}
	}
	graph, err := checker.Analyze(checks.Default(), loaded, nil)
	if err != nil {
		return nil, "", err
	}
	faults := 0
	for action := range graph.All() {
		if action.Err != nil && len(action.Package.Errors) == 0 {
			faults++ // of a check
			log.Print(action.Err)
		}
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			name, err := filepath.Rel(root, at.Filename)
			if err != nil || !action.IsRoot {
				continue
			}
			findings = append(findings, []string{module, version, action.Analyzer.Name, fmt.Sprintf("%s:%d", filepath.ToSlash(name), at.Line), d.Message})
		}
	}
	slices.SortFunc(findings, slices.Compare)
	findings = slices.CompactFunc(findings, slices.Equal)
	note = fmt.Sprintf("%d packages", len(loaded))
	if broken > 0 {
		note += fmt.Sprintf(", %d do not compile here", broken)
	}
	if faults > 0 {
		note += fmt.Sprintf(", %d faults", faults)
	}
	return findings, note, nil
}

// aboutRetries are words without which no check reports anything. The packages without one of them
// are not loaded.
var aboutRetries = regexp.MustCompile(`(?i)retr|attempt|backoff|tries|sleep|wait|pause|timer|time\.after|<<|math\.(pow|exp)`)

// unpack downloads a module and makes a copy that the go command may change.
func unpack(dir, module, version string) (string, error) {
	root := filepath.Join(dir, strings.NewReplacer("/", "_", "@", "_").Replace(module+"@"+version))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	download := exec.Command("go", "mod", "download", "-json", module+"@"+version) //nolint:noctx // ends with the program
	download.Dir, download.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out, err := download.Output()
	var got struct{ Dir, Error string }
	if e := json.Unmarshal(out, &got); e != nil {
		return "", cmp.Or(err, e)
	}
	if got.Error != "" {
		return "", errors.New(got.Error)
	}
	if err := copyTree(root, got.Dir); err != nil {
		return "", err
	}
	return root, dropReplaces(root, module)
}

// copyTree copies a folder, so that its files can be written. Vendored modules are left out: the
// module path is what they are loaded by.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
}

// dropReplaces takes out of go.mod what is replaced by a folder that the module does not contain,
// and makes a go.mod if there is none.
func dropReplaces(root, module string) error {
	name := filepath.Join(root, "go.mod")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(name, []byte("module "+module+"\n"), 0o644)
	}
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	for _, r := range file.Replace {
		if !modfile.IsDirectoryPath(r.New.Path) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, r.New.Path, "go.mod")); err != nil {
			if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return err
			}
		}
	}
	file.Cleanup()
	text, err = file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

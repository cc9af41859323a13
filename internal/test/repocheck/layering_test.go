// Package repocheck has the tests about the repository itself: who may import what, and
// that the code, the commands and the links in its documents are right.
package repocheck_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The layers of the repository, found by parsing its sources. To ask the go
// command instead would be shorter and wrong: the test's cached result would
// outlive the next bad import.

const (
	modulePath = "github.com/seed-5ff3c98e/retry"

	// Pins the tools, which follow newer versions of Go, and has a server that is one.
	toolsModule = "internal/tools"
)

// sqlStorey is the SQL of retrytable. It knows nothing of policies, so it imports only those
// of the internal packages that do not import the root package either.
const sqlStorey = "retrytable/internal/sqltable"

// pageStorey is the page about tables. It does what any program could do.
const pageStorey = "retrytable/tablepage"

// The machine of quotas is a pure function, and knows nothing of retries. quotas, which has the line
// around it, and jobs are layers of their own, between the root and what is above: the root knows
// neither, and they do not know each other. What adapters to engines share is above jobs.
const (
	machine = "internal/pace"
	quotas  = "retryquota"
	jobs    = "retryjob"
	engines = "internal/engine"
)

// newestModules take the newest versions of others, which may need a newer Go.
var newestModules = []string{"lab", "examples/engines", "internal/test/real"}

// testOnly are the third-party modules that tests of the root module may use.
var testOnly = []string{"github.com/stretchr/testify", "github.com/benbjohnson/clock"}

// notInCore must not be imported by the root package, nor by what it imports. A
// program that never dials should not carry the large ones; and a decider that
// reads no clock, takes no lock and logs nothing needs none of the others.
var notInCore = []string{
	"net/http", "crypto/tls", "os/exec", "database/sql", "log/slog", "testing",
	"sync", "sync/atomic", "os", "log", "unsafe", "C",
}

// exceptions are files of the core with those of them that they import. What is read of the
// types of errors is kept, because reading it takes longer than all the rest.
var exceptions = map[string][]string{
	"budget.go": {"sync/atomic"}, "internal/known/shape.go": {"sync/atomic"},
}

// wallClock are the functions that ask or wait for the system's clock. Only
// clock.go may name them.
var wallClock = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"context": {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
}

// blocking are the files of the root package that may wait.
var blocking = []string{"clock.go"}

func TestLayering(t *testing.T) {
	t.Parallel()
	assert.Empty(t, layeringFaults(os.DirFS("../../..")))
}

// TestLayeringFaults shows that every rule fires. Each case adds a file to a
// repository that is in order.
func TestLayeringFaults(t *testing.T) {
	t.Parallel()
	const root = modulePath
	sound := map[string]string{
		".gitignore": "go.work\n",
		".git/index": "DIRC go.mod\x00",
		"go.mod":     "module " + root + "\n\ngo 1.25\n",

		"policy.go": `package retry; import ("time"; "` + root + `/internal/sat"); var second = time.Second + sat.Max`,
		"budget.go": `package retry; import "sync/atomic"; var counter atomic.Int64`,
		"clock.go":  `package retry; import "time"; func now() time.Time { return time.Now() }; func wait() { <-time.After(1) }`,
		"next.go": `package retry; import "context"
			func done(ctx context.Context) bool { select { case <-ctx.Done(): return true; default: return false } }`,
		"retry_test.go":         `package retry_test; import ("os"; "sync"; "github.com/stretchr/testify/assert")`,
		"internal/sat/sat.go":   `package sat; const Max = 1`,
		"internal/stat/stat.go": `package stat; import ("testing"; "time"); func f(testing.TB) { go time.Sleep(1) }`,
		"retryhttp/http.go":     `package retryhttp; import ("net/http"; "` + root + `"; "` + root + `/internal/sat"; "` + root + `/retryhttp/hint")`,
		"examples/loop/main.go": `package main; import ("` + root + `"; "` + root + `/retryhttp")`,

		"adapters/river/go.mod": "module " + root + "/adapters/river\n\ngo 1.25.0\n\n" +
			"require example.com/river v1.0.0\n\nreplace " + root + " => ../..\n",
		"adapters/river/river.go": `package river; import ("example.com/river"; "` + root + `")`,
		"lab/go.mod": "module " + root + "/lab\n\ngo 1.26.0\n\nreplace (\n\texample.com/x => ./x\n\t" +
			root + " => ../\n)\n",
		"internal/tools/go.mod":       "module " + root + "/internal/tools\n\ngo 1.26.0\n",
		"internal/sat/testdata/x.go":  `no Go at all`,
		"internal/test/sql/go.mod":    "module " + root + "/internal/test/sql\n\ngo 1.25\n\nreplace " + root + " => ../../..\n",
		"internal/test/sql/x.go":      `package sql; import ("example.com/sql"; "` + root + `/retrysql")`,
		"retryhttp/testdata/y/go.mod": "module y\n",
	}
	tests := []struct {
		name, file, text string
		want             string // after the file; nothing: no fault
	}{
		{"in order", "policy.go", sound["policy.go"], ""},

		// What production code may import.
		{"third party", "retrysql/sql.go", `package retrysql; import "example.com/sql"`, "1: imports example.com/sql, which is not in the standard library"},
		{"testify outside tests", "retrytest/t.go", `package retrytest; import "github.com/stretchr/testify/assert"`, "1: imports github.com/stretchr/testify/assert, which is not in the standard library"},
		{"unknown third party in a test", "policy_test.go", `package retry_test; import "example.com/rapid"`, "1: imports example.com/rapid, which is no test tool of the root module"},
		{"a package beside", "retryexec/exec.go", `package retryexec; import "` + root + `/retryhttp"`, "1: imports " + root + "/retryhttp from the layer of retryexec"},
		{"the SQL of retrytable", "retrytable/internal/sqltable/pick.go", `package sqltable; import ("database/sql"; "` + root + `/internal/sat"; "` + root + `")`, "1: imports " + root + " from the layer of the SQL of retrytable"},
		{"what knows the root", "retrytable/internal/sqltable/pick.go", `package sqltable; import "` + root + `/internal/sqlerr"`, "1: imports " + root + "/internal/sqlerr from the layer of the SQL of retrytable"},
		{"the page of retrytable", "retrytable/tablepage/x.go", `package tablepage; import ("database/sql"; "` + root + `/retrytable"; "` + root + `/retrytable/internal/sqltable")`, "1: imports " + root + "/retrytable/internal/sqltable from the layer of the page of retrytable"},
		{"the machine of quotas", "internal/pace/x.go", `package pace; import ("time"; "` + root + `")`, "1: imports " + root + " from the layer of the machine of quotas"},
		{"a quota below a driver", "retryhttp/http.go", `package retryhttp; import "` + root + `/retryquota"`, ""},
		{"a driver below a quota", "retryquota/quota.go", `package retryquota; import "` + root + `/retryhttp"`, "1: imports " + root + "/retryhttp from the layer of retryquota"},
		{"jobs below a driver", "retrytable/table.go", `package retrytable; import "` + root + `/retryjob"`, ""},
		{"jobs below what engines share", "internal/engine/x.go", `package engine; import "` + root + `/retryjob"`, ""},
		{"jobs above the root", "call.go", `package retry; import "` + root + `/retryjob"`, "1: imports " + root + "/retryjob from the layer of the root package"},
		{"jobs above internal", "internal/sat/x.go", `package sat; import "` + root + `/retryjob"`, "1: imports " + root + "/retryjob from the layer of internal"},
		{"jobs that know a quota", "retryjob/stored.go", `package retryjob; import "` + root + `/retryquota"`, "1: imports " + root + "/retryquota from the layer of retryjob"},
		{"a quota that knows jobs", "retryquota/quota.go", `package retryquota; import "` + root + `/retryjob"`, "1: imports " + root + "/retryjob from the layer of retryquota"},
		{"a package above the root", "config.go", `package retry; import "` + root + `/retryhttp"`, "1: imports " + root + "/retryhttp from the layer of the root package"},
		{"a package above internal", "internal/stat/x.go", `package stat; import "` + root + `/retrytest"`, "1: imports " + root + "/retrytest from the layer of internal"},
		{"an adapter in internal affairs", "adapters/river/x.go", `package river; import "` + root + `/internal/sat"`, "1: imports " + root + "/internal/sat from the layer of adapters"},
		{"an example in internal affairs", "examples/loop/x.go", `package main; import "` + root + `/internal/sat"`, "1: imports " + root + "/internal/sat from the layer of examples"},
		{"a system in internal affairs", "lab/systems/runs/x.go", `package main; import "` + root + `/internal/sat"`, "1: imports " + root + "/internal/sat from the layer of lab"},

		// What the core must do without.
		{"a large package", "classify.go", `package retry; import "net/http"`, "1: imports net/http, which the core does without"},
		{"a large package by way of internal", "internal/sat/x.go", `package sat; import "crypto/tls"`, "1: imports crypto/tls, which the core does without"},
		{"a lock", "observe.go", `package retry; import "sync"`, "1: imports sync, which the core does without"},
		{"an atomic outside the budget", "state.go", `package retry; import "sync/atomic"`, "1: imports sync/atomic, which the core does without"},

		// Clock, goroutines, waits.
		{"the time", "backoff.go", "package retry\nimport \"time\"\nvar t = time.Now()", "3: names time.Now"},
		{"the time under another name", "jitter.go", `package retry; import clock "time"; var t = clock.NewTimer(1)`, "1: names time.NewTimer"},
		{"the time without a name", "jitter.go", `package retry; import . "time"; var t = Now()`, "1: imports time with a dot"},
		{"the time by way of internal", "internal/sat/x.go", `package sat; import "time"; func f() { time.Sleep(1) }`, "1: names time.Sleep"},
		{"a timeout", "retry.go", `package retry; import "context"; var _, _ = context.WithTimeout(nil, 1)`, "1: names context.WithTimeout"},
		{"a goroutine", "retry.go", `package retry; func f() { go f() }`, "1: starts a goroutine"},
		{"a receive", "next.go", `package retry; func f(c chan int) { <-c }`, "1: may block"},
		{"a send", "observe.go", `package retry; func f(c chan int) { c <- 1 }`, "1: may block"},
		{"a select without default", "budget.go", `package retry; func f() { select {} }`, "1: may block"},
		{"a receive in a branch of a select", "next.go", "package retry\nfunc f(c chan int) { select { case <-c:\n<-c\ndefault: } }", "3: may block"},
		{"a receive in the operand of a select", "next.go", "package retry\nfunc f(c chan (chan int)) { select { case x := <-(\n<-c): _ = x\ndefault: } }", "3: may block"},
		{"a wait may block", "clock.go", `package retry; func f(c chan int) { select { case <-c: case c <- 1: }; <-c }`, ""},

		// Modules.
		{"no replace", "examples/nats/go.mod", "module " + root + "/examples/nats\n\ngo 1.25\n", "does not replace " + root + " by ../.."},
		{"another replace", "examples/nats/go.mod", "module " + root + "/examples/nats\n\ngo 1.25\n\nreplace " + root + " => ..\n", "does not replace " + root + " by ../.."},
		{"another version of Go", "examples/nats/go.mod", "module " + root + "/examples/nats\n\ngo 1.26\n\nreplace " + root + " => ../..\n", "is not for go 1.25"},
		{"a toolchain", "go.mod", "module " + root + "\n\ngo 1.25\n\ntoolchain go1.26.8\n", "names a toolchain"},
		{"a replace in the root", "go.mod", "module " + root + "\n\ngo 1.25\n\nreplace example.com/x => ./x\n", "has a replace, which users of the module would not get"},
		{"another name", "lab/go.mod", "module bench\n\ngo 1.25\n\nreplace " + root + " => ..\n", "is not called " + root + "/lab"},
		{"a workspace in git", ".git/index", "DIRC go.mod\x00 go.work\x00", "has go.work"},
		{"a workspace that git would take", ".gitignore", "*.out\n", "does not have go.work"},

		{"no Go", "state.go", "no Go", "1:1: expected 'package', found no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			repository := fstest.MapFS{tt.file: &fstest.MapFile{Data: []byte(tt.text + "\n")}}
			for name, text := range sound {
				if name != tt.file {
					repository[name] = &fstest.MapFile{Data: []byte(text + "\n")}
				}
			}
			faults := layeringFaults(repository)
			if tt.want == "" {
				assert.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			assert.Equal(t, tt.want, strings.TrimSpace(strings.TrimPrefix(faults[0], tt.file+":")))
		})
	}
}

// sources are the Go files of a repository and its modules.
type sources struct {
	fset    *token.FileSet
	files   []source
	modules map[string]string // the text of go.mod by directory
	faults  []string
}

type source struct {
	name    string
	file    *ast.File
	imports []imported
}

type imported struct {
	at         token.Pos
	name, path string // the name is that in the file
}

// layeringFaults returns where a repository breaks its rules.
func layeringFaults(repository fs.FS) []string {
	s := sources{fset: token.NewFileSet(), modules: map[string]string{}}
	s.read(repository)
	core := s.core()
	for _, f := range s.files {
		s.checkImports(f)
		if core[path.Dir(f.name)] && !f.isTest() {
			s.checkCore(f)
		}
	}
	s.checkModules()
	s.checkWorkspace(repository)
	return s.faults
}

// read parses what the go command would see under any build tag.
func (s *sources) read(repository fs.FS) {
	err := fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (base == "testdata" || base == "vendor" || strings.ContainsAny(base[:1], "._")) {
				return fs.SkipDir
			}
		case base == "go.mod":
			text, err := fs.ReadFile(repository, name)
			s.modules[path.Dir(name)] = string(text)
			return err
		case path.Ext(name) == ".go":
			text, err := fs.ReadFile(repository, name)
			if err != nil {
				return err
			}
			s.parse(name, text)
		}
		return nil
	})
	if err != nil {
		s.faults = append(s.faults, err.Error())
	}
}

func (s *sources) parse(name string, text []byte) {
	file, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		s.faults = append(s.faults, err.Error())
		return
	}
	f := source{name: name, file: file}
	for _, spec := range file.Imports {
		i := imported{at: spec.Pos()}
		i.path, _ = strconv.Unquote(spec.Path.Value) // parsed already
		i.name = path.Base(i.path)
		if spec.Name != nil {
			i.name = spec.Name.Name
		}
		f.imports = append(f.imports, i)
	}
	s.files = append(s.files, f)
}

func (s *sources) fault(at token.Pos, format string, args ...any) {
	p := s.fset.Position(at)
	s.faults = append(s.faults, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, args...))
}

func (f source) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// core returns the directories of the root package and of what it imports of
// this module.
func (s *sources) core() map[string]bool {
	core := map[string]bool{".": true}
	for grown := true; grown; {
		before := len(core)
		for _, f := range s.files {
			if f.isTest() || !core[path.Dir(f.name)] {
				continue
			}
			for _, i := range f.imports {
				if dir, ours := strings.CutPrefix(i.path, modulePath+"/internal/"); ours {
					core["internal/"+dir] = true
				}
			}
		}
		grown = len(core) > before
	}
	return core
}

// checkImports checks which packages a file may know.
func (s *sources) checkImports(f source) {
	inRoot := s.moduleOf(f.name) == "."
	for _, i := range f.imports {
		ours := within(i.path, modulePath)
		standard := !strings.Contains(strings.Split(i.path, "/")[0], ".")
		switch {
		case standard:
		case ours && !f.isTest():
			if layer, ok := mayImport(path.Dir(f.name), i.path, inRoot); !ok {
				s.fault(i.at, "imports %s from the layer of %s", i.path, layer)
			}
		case ours || !inRoot:
		case !f.isTest():
			s.fault(i.at, "imports %s, which is not in the standard library", i.path)
		case !within(i.path, testOnly...):
			s.fault(i.at, "imports %s, which is no test tool of the root module", i.path)
		}
	}
}

// moduleOf returns the directory of the module that a file belongs to.
func (s *sources) moduleOf(name string) string {
	dir := path.Dir(name)
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := s.modules[dir]; ok {
			return dir
		}
	}
	return dir
}

// mayImport reports whether production code in a directory may import a package
// of this repository, and the name of the directory's layer.
func mayImport(dir, imported string, inRoot bool) (layer string, ok bool) {
	const internal = modulePath + "/internal"
	layer, _, _ = strings.Cut(dir, "/")
	switch {
	case within(imported, internal+"/test") && !within(dir, "internal/test", "lab"):
		return layer, false
	case within(dir, "internal/test"):
		return "internal/test", true
	case layer == ".":
		return "the root package", within(imported, internal)
	case layer == "internal" && !inRoot: // tests with third-party modules
		return layer, true
	case within(dir, machine):
		return "the machine of quotas", within(imported, modulePath+"/"+machine, internal+"/storm/events")
	case within(dir, "internal/storm"):
		return layer, imported == modulePath || within(imported, internal, modulePath+"/"+quotas)
	case within(dir, engines) && within(imported, modulePath+"/"+jobs):
		return layer, true
	case layer == "internal":
		return layer, imported == modulePath || within(imported, internal)
	case layer == "adapters":
		return layer, !within(imported, internal) || within(imported, internal+"/engine", internal+"/calls", internal+"/names")
	case layer == "examples", within(dir, "lab/systems"):
		return layer, !within(imported, internal)
	case within(dir, sqlStorey):
		return "the SQL of retrytable", within(imported, internal+"/redact", internal+"/sat", internal+"/show")
	case layer == quotas, layer == jobs:
		return layer, imported == modulePath || within(imported, internal)
	case within(dir, pageStorey) && within(imported, modulePath+"/retrytable/internal"):
		return "the page of retrytable", false
	case strings.HasPrefix(layer, "retry"):
		return layer, imported == modulePath ||
			within(imported, internal, modulePath+"/"+layer, modulePath+"/"+quotas, modulePath+"/"+jobs)
	default:
		return layer, true
	}
}

// within reports whether a package is one of others or below one.
func within(name string, others ...string) bool {
	return slices.ContainsFunc(others, func(other string) bool {
		return name == other || strings.HasPrefix(name, other+"/")
	})
}

// checkCore checks that a file is pure, as far as it has to be.
func (s *sources) checkCore(f source) {
	names := map[string]string{}
	for _, i := range f.imports {
		names[i.name] = i.path
		if within(i.path, notInCore...) && !slices.Contains(exceptions[f.name], i.path) {
			s.fault(i.at, "imports %s, which the core does without", i.path)
		}
		if i.name == "." {
			s.fault(i.at, "imports %s with a dot", i.path)
		}
	}
	mayBlock := slices.Contains(blocking, f.name)
	ready := map[ast.Node]bool{} // what a select with a default does not wait for
	ast.Inspect(f.file, func(n ast.Node) bool {
		blocks := false
		switch n := n.(type) {
		case *ast.GoStmt:
			s.fault(n.Pos(), "starts a goroutine")
		case *ast.SelectorExpr:
			if pkg := selected(n, names); pkg != "" && f.name != "clock.go" {
				s.fault(n.Pos(), "names %s.%s", pkg, n.Sel.Name)
			}
		case *ast.SelectStmt:
			blocks = !markReady(n, ready)
		case *ast.UnaryExpr:
			blocks = n.Op == token.ARROW && !ready[n]
		case *ast.SendStmt:
			blocks = !ready[n]
		}
		if blocks && !mayBlock {
			s.fault(n.Pos(), "may block")
		}
		return true
	})
}

// selected returns the package of a function that is part of the wall clock.
func selected(n *ast.SelectorExpr, names map[string]string) string {
	x, ok := n.X.(*ast.Ident)
	if !ok || !slices.Contains(wallClock[names[x.Name]], n.Sel.Name) {
		return ""
	}
	return names[x.Name]
}

// markReady reports whether a select has a default, and marks the operations
// that it therefore does not wait for.
func markReady(n *ast.SelectStmt, ready map[ast.Node]bool) bool {
	hasDefault := false
	for _, clause := range n.Body.List {
		hasDefault = hasDefault || clause.(*ast.CommClause).Comm == nil
	}
	if !hasDefault {
		return false
	}
	for _, clause := range n.Body.List {
		switch comm := clause.(*ast.CommClause).Comm.(type) {
		case *ast.SendStmt:
			ready[comm] = true
		case *ast.ExprStmt:
			ready[ast.Unparen(comm.X)] = true
		case *ast.AssignStmt:
			ready[ast.Unparen(comm.Rhs[0])] = true
		}
	}
	return true
}

var (
	goVersion     = regexp.MustCompile(`(?m)^go 1\.25(\.0)?$`)
	goToolchain   = regexp.MustCompile(`(?m)^toolchain\b`)
	goReplace     = regexp.MustCompile(`(?m)^replace\b`)
	goReplaceRoot = regexp.MustCompile(`(?m)^(?:replace )?\s*` + regexp.QuoteMeta(modulePath) + ` => (\S+)$`)
)

func (s *sources) checkModules() {
	for _, dir := range slices.Sorted(maps.Keys(s.modules)) {
		text := s.modules[dir]
		fault := func(problem string) {
			s.faults = append(s.faults, path.Join(dir, "go.mod")+": "+problem)
		}
		if name := path.Join(modulePath, dir); !strings.HasPrefix(text, "module "+name+"\n") {
			fault("is not called " + name)
		}
		if goToolchain.MatchString(text) {
			fault("names a toolchain")
		}
		if dir == toolsModule || strings.HasPrefix(dir, toolsModule+"/") {
			continue
		}
		newer := slices.Contains(newestModules, dir) || strings.HasPrefix(dir, "adapters/") || strings.HasPrefix(dir, "cmd/")
		if !newer && !goVersion.MatchString(text) {
			fault("is not for go 1.25")
		}
		if dir == "." {
			if goReplace.MatchString(text) {
				fault("has a replace, which users of the module would not get")
			}
			continue
		}
		up := path.Clean(strings.Repeat("../", strings.Count(dir, "/")+1))
		if m := goReplaceRoot.FindStringSubmatch(text); m == nil || path.Clean(m[1]) != up {
			fault("does not replace " + modulePath + " by " + up)
		}
	}
}

// checkWorkspace checks that go.work stays out of git: it would hide a nested
// module that misses a requirement.
func (s *sources) checkWorkspace(repository fs.FS) {
	ignored, _ := fs.ReadFile(repository, ".gitignore") // missing: nothing is ignored
	if !slices.Contains(strings.Fields(string(ignored)), "go.work") {
		s.faults = append(s.faults, ".gitignore: does not have go.work")
	}
	// The index lists the files of a clone; a source archive has none.
	index, _ := fs.ReadFile(repository, ".git/index")
	if bytes.Contains(index, []byte("go.work\x00")) {
		s.faults = append(s.faults, ".git/index: has go.work")
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// loader reads the packages of modules from their sources. It compiles nothing, leaves out the
// bodies of functions of other modules, and reads the standard library once for all modules.
type loader struct {
	fset *token.FileSet
	std  map[string]*types.Package // by folder
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Name, Dir string
	GoFiles               []string
	ImportMap             map[string]string
	Standard              bool
	Module                *packages.Module
}

// module is what one module imports.
type module struct {
	*loader
	byPath map[string]*listed
	others map[string]*types.Package // that are not of the standard library
}

func newLoader() *loader {
	return &loader{fset: token.NewFileSet(), std: map[string]*types.Package{}}
}

// load returns the packages of a module for which look says so by the text of a file.
func (l *loader) load(root string, look func(text []byte) bool) ([]*packages.Package, error) {
	list := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Name,Dir,GoFiles,ImportMap,Standard,Module", "./...") //nolint:noctx // ends with the program
	list.Dir, list.Env = root, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, err
	}
	m := &module{loader: l, byPath: map[string]*listed{}, others: map[string]*types.Package{}}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	var own []*listed
	for {
		p := &listed{}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		m.byPath[p.ImportPath] = p
		if p.Dir == root || strings.HasPrefix(p.Dir, root+string(filepath.Separator)) {
			own = append(own, p)
		}
	}
	var loaded []*packages.Package
	for _, p := range own {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			if look(text) {
				loaded = append(loaded, m.whole(p))
				break
			}
		}
	}
	return loaded, nil
}

// whole reads a package with the bodies of its functions.
func (m *module) whole(p *listed) *packages.Package {
	pkg := &packages.Package{
		ID: p.ImportPath, Name: p.Name, PkgPath: p.ImportPath, Fset: m.fset, Module: p.Module, TypesSizes: types.SizesFor("gc", "amd64"),
		TypesInfo: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{}, Defs: map[*ast.Ident]types.Object{},
			Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
			Scopes: map[ast.Node]*types.Scope{}, FileVersions: map[*ast.File]string{},
		},
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(m.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			pkg.Errors = append(pkg.Errors, packages.Error{Msg: err.Error()})
		}
		if file != nil {
			pkg.Syntax = append(pkg.Syntax, file)
		}
	}
	config := m.config(p)
	config.Error = func(err error) {
		pkg.Errors = append(pkg.Errors, packages.Error{Msg: err.Error()})
		if e, ok := errors.AsType[types.Error](err); ok {
			pkg.TypeErrors = append(pkg.TypeErrors, e)
		}
	}
	pkg.Types, _ = config.Check(p.ImportPath, m.fset, pkg.Syntax, pkg.TypesInfo) // the errors are in pkg
	return pkg
}

func (m *module) config(p *listed) *types.Config {
	config := &types.Config{
		Importer: importer{m, p}, Sizes: types.SizesFor("gc", "amd64"), FakeImportC: true, IgnoreFuncBodies: false,
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	return config
}

// importer finds what a package imports.
type importer struct {
	*module
	of *listed
}

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if to := i.of.ImportMap[path]; to != "" {
		path = to
	}
	p := i.byPath[path]
	if p == nil {
		return nil, fmt.Errorf("%s is not there", path)
	}
	cache := i.others
	if p.Standard {
		cache = i.std
	}
	if done, ok := cache[p.Dir]; ok {
		return done, nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if file, _ := parser.ParseFile(i.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution); file != nil {
			files = append(files, file)
		}
	}
	config := i.config(p)
	config.IgnoreFuncBodies = true
	config.Error = func(error) {}
	pkg, _ := config.Check(path, i.fset, files, nil) // as far as it goes
	cache[p.Dir] = pkg
	return pkg, nil
}

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

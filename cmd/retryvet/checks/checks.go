// Package checks has the analyzers of retryvet, one for each mistake in code that retries.
//
// They share one notion, an attempt: code that is run again when it fails, either the body
// of a loop written by hand or a function given to a library that retries. None of them
// exports facts, so that no dependency has to be analyzed. Test files are left out: a test
// that sleeps between two tries harms nobody. So are generated files, unless [Generated].
package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
)

// Generated makes the checks look at generated files too. It is set before the first run.
var Generated bool

// Default returns the checks that are on by default.
func Default() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		Overflow, Sleep, LastSleep, DeadCtx, Body, Leak, DeferLoop, Post, Unbounded, Lost, Nested,
		PolicyChange, CallCopy, CallEnd, NonIdempotent, PastTimeout, TwoTurns, Ignore,
	}
}

// All returns every check, also the ones that are off by default because their findings are
// advice and not mistakes.
func All() []*analysis.Analyzer { return append(Default(), NoJitter) }

// page is where a finding is explained.
const page = "https://github.com/seed-5ff3c98e/retry/blob/main/docs/retryvet.md#"

// newCheck returns an analyzer that calls run once for each package.
func newCheck(name, doc string, run func(*unit)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      doc,
		URL:      page + name,
		Requires: []*analysis.Analyzer{sourceAnalyzer},
		Run: func(pass *analysis.Pass) (_ any, err error) {
			defer recovered(pass, &err)
			s := pass.ResultOf[sourceAnalyzer].(*source)
			s.mu.Lock()
			defer s.mu.Unlock()
			run(&unit{Pass: pass, source: s})
			return nil, nil
		},
	}
}

// recovered makes an error of a panic, so that it keeps no other package from being checked. In one that
// does not compile, there may be no type where a check expects one. Elsewhere the check is wrong.
func recovered(pass *analysis.Pass, err *error) {
	switch r := recover(); {
	case r == nil:
	case len(pass.TypeErrors) > 0:
		*err = fmt.Errorf("the code that does not compile could not be read: %v", r)
	default:
		*err = fmt.Errorf("a mistake of retryvet in %s, please report it: %v\n%s", pass.Pkg.Path(), r, debug.Stack())
	}
}

// unit is what one check sees of one package.
type unit struct {
	*analysis.Pass
	*source
}

// report reports a mistake, unless a comment says that it is none.
func (u *unit) report(at ast.Node, message string, fixes ...analysis.SuggestedFix) {
	if u.ignored(at.Pos()) {
		return
	}
	u.Report(analysis.Diagnostic{Pos: at.Pos(), End: at.End(), Message: message, SuggestedFixes: fixes})
}

// source is what the checks share about one package. Drivers run them at the same time, and they take
// turns, because each remembers here what it has worked out.
type source struct {
	mu       sync.Mutex
	pass     *analysis.Pass
	files    []*ast.File // that are checked
	attempts []*attempt
	comments *comments
	graphs   map[*ast.BlockStmt]*graph
	decls    map[*types.Func]*ast.FuncDecl // of the package

	// What outcomes.go is looking at: the arguments of the functions that it is in, and how many.
	bound map[*types.Var]ast.Expr
	depth int
}

var sourceAnalyzer = &analysis.Analyzer{
	Name:       "retryattempts",
	Doc:        "find the code that is run again when it fails",
	Run:        newSource,
	ResultType: reflect.TypeFor[*source](),
}

func newSource(pass *analysis.Pass) (_ any, err error) {
	defer recovered(pass, &err)
	s := &source{
		pass: pass, comments: newComments(pass), graphs: map[*ast.BlockStmt]*graph{},
		decls: map[*types.Func]*ast.FuncDecl{}, bound: map[*types.Var]ast.Expr{},
	}
	for _, file := range pass.Files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
				if f, ok := pass.TypesInfo.Defs[d.Name].(*types.Func); ok {
					s.decls[f] = d
				}
			}
		}
	}
	for _, file := range pass.Files {
		if !s.skip(file) {
			s.files = append(s.files, file)
			s.findAttempts(file)
		}
	}
	return s, nil
}

// decl returns the declaration of a function of this package, or nil.
func (s *source) decl(f *types.Func) *ast.FuncDecl {
	if f == nil {
		return nil
	}
	return s.decls[f.Origin()]
}

// skip reports whether a file is not checked.
func (s *source) skip(file *ast.File) bool {
	return isGenerated(file) && !Generated || strings.HasSuffix(s.pass.Fset.Position(file.Package).Filename, "_test.go")
}

var generated = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// isGenerated is ast.IsGenerated, but for files that somebody wrote and cgo has translated.
func isGenerated(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && generated.MatchString(c.Text) && !strings.Contains(c.Text, "by cmd/cgo;") {
				return true
			}
		}
	}
	return false
}

func (s *source) ignored(pos token.Pos) bool { return s.comments.ignored(s.pass.Fset.Position(pos)) }

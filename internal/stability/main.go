// Command stability writes docs/stability.tsv: every exported name of the packages that a program
// imports, but for those of adapters, whether it is stable, what it is, and what it is for.
//
// Whether a name is stable is written in the file by hand, and a new name may change. The command
// fails if a stable name is gone or has become another thing: such a change needs "may change"
// first, which is a line of its own in a review. With -check it writes nothing, and fails if there
// is something to write.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run . -root ../..

const page = "docs/stability.tsv"

func main() {
	root := flag.String("root", ".", "the `folder` of the repository")
	check := flag.Bool("check", false, "write nothing")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "stability:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	repository := os.DirFS(root)
	now, err := exported(repository)
	if err != nil {
		return err
	}
	text, err := fs.ReadFile(repository, page)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows, faults := compare(parse(string(text)), now)
	if len(faults) > 0 {
		return fmt.Errorf("%s has names that are not as they were:\n%s", page, strings.Join(faults, "\n"))
	}
	written := format(rows)
	switch {
	case written == string(text):
		return nil
	case check:
		return fmt.Errorf("%s is not what the packages export: run go generate ./internal/stability", page)
	default:
		return os.WriteFile(root+"/"+page, []byte(written), 0o644) //nolint:gosec // a document
	}
}

// row is one name.
type row struct {
	status   string // stable or mayChange
	name     string // with its package, and its type if it has one
	what     string // func(…), const T, struct, …
	sentence string // what it is for, from its comment
}

const (
	stable    = "stable"
	mayChange = "may change"
	header    = "status\tname\twhat\tsentence\n"
)

// compare gives the names of now the status that they have in the page. faults are stable names
// that are gone or have become another thing.
func compare(page, now []row) (rows []row, faults []string) {
	left := map[string]row{}
	for _, r := range page {
		left[r.name] = r
	}
	for _, r := range now {
		was, ok := left[r.name]
		delete(left, r.name)
		if r.status = mayChange; ok {
			r.status = was.status
		}
		if r.status == stable && r.what != was.what {
			faults = append(faults, fmt.Sprintf("%s is %q, and was %q", r.name, r.what, was.what))
		}
		rows = append(rows, r)
	}
	for name, was := range left {
		if was.status == stable {
			faults = append(faults, name+" is gone")
		}
	}
	slices.Sort(faults)
	return rows, faults
}

func parse(text string) (rows []row) {
	for line := range strings.Lines(strings.TrimPrefix(text, header)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 {
			rows = append(rows, row{f[0], f[1], f[2], f[3]})
		}
	}
	return rows
}

func format(rows []row) string {
	var b strings.Builder
	b.WriteString(header)
	for _, r := range rows {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", r.status, r.name, r.what, r.sentence)
	}
	return b.String()
}

// exported returns the names of all packages, in their order.
func exported(repository fs.FS) (rows []row, err error) {
	var files []string
	for _, pattern := range []string{"*.go", "retry*/*.go", "retry*/*/*.go"} {
		found, err := fs.Glob(repository, pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	s := scan{fset: token.NewFileSet(), seen: map[string]bool{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/internal/") {
			continue
		}
		text, err := fs.ReadFile(repository, file)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(s.fset, file, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if f.Name.Name == "main" {
			continue
		}
		s.in = f.Name.Name
		if dir := path.Dir(file); strings.Contains(dir, "/") {
			s.in = dir
		}
		s.file(f)
	}
	slices.SortStableFunc(s.rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	return s.rows, nil
}

// scan collects the names of files. A name that has a file for each platform is one name.
type scan struct {
	fset *token.FileSet
	in   string // the package
	seen map[string]bool
	rows []row
}

// link is a link to a name in a comment.
var link = regexp.MustCompile(`\[(\*?[A-Za-z][\w.]*)\]`)

func (s *scan) add(name, what string, comments ...*ast.CommentGroup) {
	r := row{name: s.in + "." + name, what: what}
	if s.seen[r.name] {
		return
	}
	s.seen[r.name] = true
	for _, c := range comments {
		if r.sentence == "" {
			r.sentence = link.ReplaceAllString(new(doc.Package).Synopsis(c.Text()), "$1")
		}
	}
	s.rows = append(s.rows, r)
}

func (s *scan) file(f *ast.File) {
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			s.function(decl)
		case *ast.GenDecl:
			kind := ""
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.typed(spec, decl.Doc)
				case *ast.ValueSpec:
					if spec.Type != nil || len(spec.Values) > 0 { // otherwise it is as the one before
						kind = s.text(spec.Type)
					}
					for _, name := range spec.Names {
						if name.IsExported() {
							s.add(name.Name, strings.TrimSpace(decl.Tok.String()+" "+kind), spec.Doc, spec.Comment, decl.Doc)
						}
					}
				}
			}
		}
	}
}

func (s *scan) function(f *ast.FuncDecl) {
	name := f.Name.Name
	if f.Recv != nil {
		of := strings.TrimPrefix(s.text(f.Recv.List[0].Type), "*")
		of, _, _ = strings.Cut(of, "[")
		if !ast.IsExported(of) {
			return
		}
		name = of + "." + name
	}
	if f.Name.IsExported() {
		s.add(name, s.text(f.Type), f.Doc)
	}
}

func (s *scan) typed(t *ast.TypeSpec, of *ast.CommentGroup) {
	if !t.Name.IsExported() {
		return
	}
	structure, ok := t.Type.(*ast.StructType)
	if !ok {
		s.add(t.Name.Name, "type "+s.text(t.Type), t.Doc, of, t.Comment)
		return
	}
	s.add(t.Name.Name, "struct", t.Doc, of, t.Comment)
	for _, field := range structure.Fields.List {
		kind := s.text(field.Type)
		embedded, _, _ := strings.Cut(kind, "[")
		embedded = strings.TrimLeft(path.Ext("."+embedded), ".*")
		if len(field.Names) == 0 && ast.IsExported(embedded) {
			s.add(t.Name.Name+"."+embedded, "embedded "+kind, field.Doc, field.Comment)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				s.add(t.Name.Name+"."+name.Name, "field "+kind, field.Doc, field.Comment)
			}
		}
	}
}

// text returns the source of a type in one line, without comments.
func (s *scan) text(node ast.Node) string {
	if e, ok := node.(ast.Expr); node == nil || ok && e == nil {
		return ""
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			n.Doc, n.Comment = nil, nil
		case *ast.InterfaceType:
			n.Methods.List = slices.DeleteFunc(n.Methods.List, func(f *ast.Field) bool {
				return len(f.Names) > 0 && !f.Names[0].IsExported()
			})
		}
		return true
	})
	var b strings.Builder
	if err := printer.Fprint(&b, s.fset, node); err != nil {
		return err.Error()
	}
	lines := strings.NewReplacer("{\n", "{ ", "\n}", " }", "(\n", "(", ",\n)", ")", ",\n", ", ", "\n\n", "; ", "\n", "; ").Replace(b.String())
	return strings.Join(strings.Fields(lines), " ")
}

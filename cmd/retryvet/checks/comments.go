package checks

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Ignore reports a comment that silences retryvet and does not say why.
var Ignore = newCheck("ignore", `report a //retryvet:ignore without a reason

A finding that is left as it is needs a reason for the next reader:

	//retryvet:ignore the server takes the same order twice`, func(u *unit) {
	for _, c := range u.comments.unexplained {
		// The comment silences the other checks, and not this one.
		u.Reportf(c.Pos(), "say why: //retryvet:ignore reason")
	}
})

// comments are the comments of a package that silence findings.
type comments struct {
	spans       map[string][]lines // by file
	unexplained []*ast.Comment
}

// lines are the first and the last line that a comment silences.
type lines struct{ first, last int }

const directive = "//retryvet:ignore"

func newComments(pass *analysis.Pass) *comments {
	c := &comments{spans: map[string][]lines{}}
	for _, file := range pass.Files {
		starts := map[int]bool{} // lines that are silenced, with what begins there
		code := codeLines(pass.Fset, file)
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if !silences(comment.Text) {
					continue
				}
				reason, ours := strings.CutPrefix(comment.Text, directive)
				if reason = strings.TrimSpace(reason); ours && (reason == "" || strings.HasPrefix(reason, "//")) {
					c.unexplained = append(c.unexplained, comment)
				}
				line := pass.Fset.Position(comment.Pos()).Line
				starts[line] = true
				if !code[line] {
					starts[pass.Fset.Position(group.End()).Line+1] = true
				}
			}
		}
		if len(starts) > 0 {
			c.add(pass.Fset, file, starts)
		}
	}
	return c
}

// codeLines returns the lines on which a statement, a declaration or a field begins. A
// comment on another line is about what follows it.
func codeLines(fset *token.FileSet, file *ast.File) map[int]bool {
	code := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case ast.Stmt, ast.Decl, *ast.Field:
			code[fset.Position(n.Pos()).Line] = true
		}
		return true
	})
	return code
}

// silences reports whether a comment is //nolint for all linters or for this one, or
// //retryvet:ignore.
func silences(text string) bool {
	if rest, ok := strings.CutPrefix(text, directive); ok {
		return rest == "" || rest[0] == ' ' || rest[0] == '\t'
	}
	rest, ok := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "//nolint")
	if !ok {
		return false
	}
	rest, _, _ = strings.Cut(rest, "//")
	if rest == "" {
		return true
	}
	names, ok := strings.CutPrefix(rest, ":")
	for name := range strings.SplitSeq(names, ",") {
		if ok && (strings.HasPrefix(name, "retryvet") || name == "all") {
			return true
		}
	}
	return false
}

// add silences lines, and the statements and declarations that begin on them.
func (c *comments) add(fset *token.FileSet, file *ast.File, starts map[int]bool) {
	name := fset.Position(file.FileStart).Filename
	for line := range starts {
		c.spans[name] = append(c.spans[name], lines{line, line})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case ast.Stmt, ast.Decl:
			if first := fset.Position(n.Pos()).Line; starts[first] {
				c.spans[name] = append(c.spans[name], lines{first, fset.Position(n.End()).Line})
			}
		}
		return true
	})
}

func (c *comments) ignored(at token.Position) bool {
	for _, span := range c.spans[at.Filename] {
		if span.first <= at.Line && at.Line <= span.last {
			return true
		}
	}
	return false
}

package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// What the documents say has to be true: their Go code is code that is compiled
// elsewhere, their make targets exist, and their links lead somewhere.

// rootDocuments are the documents that must be there, besides those in docs.
var rootDocuments = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/SECURITY.md"}

// longestReadme is how many lines a stranger reads.
const longestReadme = 200

func TestReadme(t *testing.T) {
	t.Parallel()
	assert.Empty(t, documentFaults(os.DirFS("../../..")))
}

// TestReadmeFaults shows that every rule fires. Each case replaces files in a
// repository that is in order.
func TestReadmeFaults(t *testing.T) {
	t.Parallel()
	const fence = "```"
	sound := map[string]string{
		"CONTRIBUTING.md":     "Run `make test FUZZTIME=1s`, see [the README](README.md#what-is-retried).\n",
		".github/SECURITY.md": "Nothing.\n",
		"CHANGELOG.md":        "## [Unreleased]\n\n[Unreleased]: https://example.com/compare\n",
		"Makefile":            "X := y\n\n.PHONY: test\ntest: ## all of them\n\tgo test ./...\n\nci: test\n\ntest-386:\n",
		"README.md": "# retry\n\n" + fence + "go\np := retry.Policy{\n    MaxAttempts: 5,\n}\nuse(p)\n" + fence + "\n\n" +
			fence + "sh\ngo get x\n$ make ci && make -s test-386 # make it so\nmake\n" + fence + "\n\n" +
			"## What is `retried`?\n\n[here](#what-is-retried) ![](docs/plot.svg \"a plot\") [x](https://example.com/y)\n" +
			"[dir](docs/) [ref][r]\n\n[r]: docs/guide.md\n\n" + fence + "\n[no link](nowhere)\n" + fence + "\n",
		"docs/guide.md":           fence + "go\npackage main\n\nfunc main() {}\n" + fence + "\n[up](../README.md)\n",
		"docs/plot.svg":           "<svg/>",
		"example_policy_test.go":  "package retry_test\n\nfunc ExamplePolicy() {\n\tp := retry.Policy{\n\t\tMaxAttempts: 5,\n\t}\n\tuse(p)\n}\n",
		"policy_test.go":          "package retry_test\n\nfunc TestPolicy() {\n\tunseen()\n}\n",
		"examples/loop/main.go":   "package main\n\nfunc main() {}\n",
		"examples/loop/helper.go": "package main\n\nfunc help() {}\n",
	}
	block := func(language, text string) string { return fence + language + "\n" + text + "\n" + fence + "\n" }
	tests := []struct {
		name, file, text string // no text: no file
		want             string
	}{
		{"in order", "docs/other.md", "Nothing.", ""},

		{"no README", "README.md", "", "open README.md: file does not exist"},
		{"a long README", "README.md", strings.Repeat("x\n\n", 101), "README.md:202: is longer than 200 lines"},
		{"no CHANGELOG", "CHANGELOG.md", "", "open CHANGELOG.md: file does not exist"},

		{"short code that another document shows", "docs/other.md", block("go", "use(p)"), ""},
		{
			"code that another document shows", "docs/other.md", "\n" + block("go", "p := retry.Policy{\n\tMaxAttempts: 5,\n}\nuse(p)"),
			"docs/other.md:2: shows the code of README.md:3",
		},
		{"code from nowhere", "docs/other.md", block("go", "panic(1)"), "docs/other.md:1: is in no Example and no main.go of examples: panic(1)"},
		{"code of a test", "docs/other.md", "\n\n" + block("go", "unseen()"), "docs/other.md:3: is in no Example and no main.go of examples: unseen()"},
		{
			"code of another file of an example", "docs/other.md", block("go", "func help() {}"),
			"docs/other.md:1: is in no Example and no main.go of examples: func help() {}",
		},
		{"a part of a word", "docs/other.md", block("go", "se(p)"), "docs/other.md:1: is in no Example and no main.go of examples: se(p)"},
		{
			"code in a quotation", "docs/other.md", "> " + fence + "go\n> panic(2)\n> " + fence + "\n",
			"docs/other.md:1: is in no Example and no main.go of examples: panic(2)",
		},
		{"empty code", "docs/other.md", block("go", ""), "docs/other.md:1: is in no Example and no main.go of examples: "},
		{"a block without end", "docs/other.md", fence + "go\nuse(p)\n", "docs/other.md:1: the block does not end"},

		{"a command", "docs/other.md", block("sh", "make love"), "docs/other.md:1: the Makefile has no love"},
		{"a command after another", "docs/other.md", block("console", "$ cd x; FUZZTIME=1s make -j 2 ci war"), "docs/other.md:1: the Makefile has no war"},
		{"a command in a sentence", "docs/other.md", "Use `make war`.", "docs/other.md:1: the Makefile has no war"},
		{"a target that is only a part", "docs/other.md", "Use `make tes`.", "docs/other.md:1: the Makefile has no tes"},

		{"a link", "docs/other.md", "a\n[b](guide)\n", "docs/other.md:2: leads nowhere: guide"},
		{"a link with another base", "docs/other.md", "[b](docs/guide.md)", "docs/other.md:1: leads nowhere: docs/guide.md"},
		{"a link out of the repository", "docs/other.md", "[b](../../x)", "docs/other.md:1: leads nowhere: ../../x"},
		{"a picture", "docs/other.md", "![b](plot.png \"b\")", "docs/other.md:1: leads nowhere: plot.png"},
		{"a picture in HTML", "docs/other.md", `<img width="5" src="plot.png">`, "docs/other.md:1: leads nowhere: plot.png"},
		{"a reference", "docs/other.md", "[b]: other/guide.md", "docs/other.md:1: leads nowhere: other/guide.md"},
		{"a heading", "docs/other.md", "# What\n[b](#what) [c](#why)", "docs/other.md:2: leads nowhere: #why"},
		{"a heading of another document", "docs/other.md", "[b](../README.md#what-is-it)", "docs/other.md:1: leads nowhere: ../README.md#what-is-it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			repository := fstest.MapFS{}
			for name, text := range sound {
				repository[name] = &fstest.MapFile{Data: []byte(text)}
			}
			delete(repository, tt.file)
			if tt.text != "" {
				repository[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
			}
			faults := documentFaults(repository)
			if tt.want == "" {
				assert.Empty(t, faults)
				return
			}
			assert.Contains(t, faults, tt.want)
		})
	}
}

// shown is a block of code in a document.
type shown struct{ code, place string }

// documents is what is known while documents are checked.
type documents struct {
	repository fs.FS
	compiled   string // code that the documents may show
	shown      []shown
	makefile   string
	faults     []string
}

// documentFaults returns what is not true of the documents of a repository.
func documentFaults(repository fs.FS) []string {
	d := documents{repository: repository}
	d.makefile = d.read("Makefile")
	d.compiled = d.examples()
	documents := rootDocuments
	for _, pattern := range []string{"docs/*.md", "docs/evidence/*.md", "docs/*/README.md", "adapters/*.md", "examples/*.md", "examples/*/*.md", "examples/*/*/*.md", "lab/systems/*.md", "lab/systems/*/*.md"} {
		found, err := fs.Glob(repository, pattern)
		d.check(err)
		documents = slices.Concat(documents, found)
	}
	for _, name := range documents {
		d.document(name, d.read(name))
	}
	if n := strings.Count(d.read("README.md"), "\n"); n > longestReadme {
		d.fault("README.md", n, "is longer than %d lines", longestReadme)
	}
	return d.faults
}

func (d *documents) check(err error) {
	if err != nil {
		d.faults = append(d.faults, err.Error())
	}
}

func (d *documents) fault(name string, line int, format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
}

func (d *documents) read(name string) string {
	text, err := fs.ReadFile(d.repository, name)
	d.check(err)
	return string(text)
}

// examples returns the code of all Examples, of test files that hold nothing
// but an example, of the main.go files in examples, and of the recipes in examples/jobs and examples/recipes.
func (d *documents) examples() string {
	var b strings.Builder
	d.check(fs.WalkDir(d.repository, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (base == "testdata" || strings.ContainsAny(base[:1], "._")) {
				return fs.SkipDir
			}
		case base == "main.go" && strings.HasPrefix(name, "examples/"),
			(strings.HasPrefix(name, "examples/jobs/") || strings.HasPrefix(name, "examples/recipes/")) && path.Ext(name) == ".go":
			b.WriteString(words(d.read(name)))
		case strings.HasSuffix(base, "_test.go"):
			text := d.read(name)
			if strings.HasPrefix(base, "example_") {
				b.WriteString(words(text))
			}
			for _, example := range exampleFuncs(name, text) {
				b.WriteString(words(example))
			}
		}
		return nil
	}))
	return b.String()
}

// exampleFuncs returns the code of the Examples of a file.
func exampleFuncs(name, text string) []string {
	var funcs []string
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler will say so
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") {
			funcs = append(funcs, text[fset.Position(f.Pos()).Offset:fset.Position(f.End()).Offset])
		}
	}
	return funcs
}

// words returns text with every run of white space, and both its ends, made one
// space.
func words(text string) string { return " " + strings.Join(strings.Fields(text), " ") + " " }

var (
	codeInLine = regexp.MustCompile("`[^`]*`")
	makeInLine = regexp.MustCompile("`(make [^`]*)`")
	linkInLine = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)|(?:src|href)="([^"]+)"|^\[[^]]+\]: (\S+)`)
)

// document checks one document, line by line.
func (d *documents) document(name, text string) {
	var language, code string
	start := 0 // the line on which a block began
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "> ")
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && start == 0:
			start, language, code = i+1, strings.TrimSpace(fence), ""
		case isFence:
			d.block(name, start, language, code)
			start = 0
		case start > 0:
			code += line + "\n"
		default:
			for _, m := range makeInLine.FindAllStringSubmatch(line, -1) {
				d.command(name, i+1, m[1])
			}
			for _, m := range linkInLine.FindAllStringSubmatch(codeInLine.ReplaceAllString(line, ""), -1) {
				d.link(name, i+1, m[1]+m[2]+m[3])
			}
		}
	}
	if start > 0 {
		d.fault(name, start, "the block does not end")
	}
}

func (d *documents) block(name string, line int, language, code string) {
	switch language {
	case "go":
		code = words(code)
		if strings.TrimSpace(code) == "" || !strings.Contains(d.compiled, code) {
			d.fault(name, line, "is in no Example and no main.go of examples: %s", strings.TrimSpace(code))
		}
		if len(strings.Fields(code)) <= shortCode {
			return
		}
		for _, other := range d.shown {
			if strings.Contains(other.code, code) || strings.Contains(code, other.code) {
				d.fault(name, line, "shows the code of %s", other.place)
			}
		}
		d.shown = append(d.shown, shown{code, fmt.Sprintf("%s:%d", name, line)})
	case "sh", "bash", "console":
		for command := range strings.SplitSeq(code, "\n") {
			d.command(name, line, command)
		}
	}
}

// shortCode is how many words of code two documents may both show.
const shortCode = 6

var commandEnd = regexp.MustCompile(`&&|\|\|?|;`)

// command checks the targets of make in a line for a shell.
func (d *documents) command(name string, line int, text string) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "$ "), "#")
	for _, command := range commandEnd.Split(text, -1) {
		args := strings.Fields(command)
		for len(args) > 0 && strings.Contains(args[0], "=") {
			args = args[1:]
		}
		if len(args) == 0 || args[0] != "make" {
			continue
		}
		for _, arg := range args[1:] {
			isTarget := unicode.IsLetter(rune(arg[0])) && !strings.Contains(arg, "=")
			if isTarget && !strings.Contains("\n"+d.makefile, "\n"+arg+":") {
				d.fault(name, line, "the Makefile has no %s", arg)
			}
		}
	}
}

var hasScheme = regexp.MustCompile(`^[a-z]+:`)

// link checks a link to a file of the repository, and to its heading.
func (d *documents) link(name string, line int, target string) {
	if hasScheme.MatchString(target) {
		return
	}
	file, heading, _ := strings.Cut(target, "#")
	to := name
	if file != "" {
		to = path.Join(path.Dir(name), file)
	}
	if _, err := fs.Stat(d.repository, to); err != nil {
		d.fault(name, line, "leads nowhere: %s", target)
		return
	}
	if heading != "" && path.Ext(to) == ".md" && !slices.Contains(headings(d.read(to)), heading) {
		d.fault(name, line, "leads nowhere: %s", target)
	}
}

var headingLine = regexp.MustCompile(`(?m)^#+ +(.*)$`)

// headings returns the names under which GitHub links the headings of a
// document.
func headings(text string) []string {
	var names []string
	for _, m := range headingLine.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(m[1])))
	}
	return names
}

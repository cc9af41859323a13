package repocheck_test

import (
	"context"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// What cannot be found is not there. These tests look for what a stranger looks for.

// mostExamples is how many examples a file may have if a link leads to its top.
const mostExamples = 10

// TestAdaptersAreFound: adapters/README.md has each of them, with lines that compile, and the comment
// of each package begins with such lines.
func TestAdaptersAreFound(t *testing.T) {
	t.Parallel()
	page := read(t, "adapters/README.md")
	d := documents{repository: os.DirFS("../../..")}
	d.makefile = d.read("Makefile")
	d.compiled = d.examples()
	d.document("adapters/README.md", page)
	assert.Empty(t, d.faults)
	entries := testkit.Must(os.ReadDir("../../../adapters"))(t)
	adapters := 0
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() {
			continue
		}
		adapters++
		_, section, ok := strings.Cut(page, "\n## "+name+"\n")
		require.True(t, ok, "adapters/README.md has no heading for %s", name)
		section, _, _ = strings.Cut(section, "\n## ")
		assert.Contains(t, section, "```go\n", name)
		assert.Contains(t, section, "]("+name+")", name)
		assert.Contains(t, section, name+".", name)
		doc, compiled := packageDoc(t, "adapters/"+name), words(read(t, "adapters/"+name+"/example_test.go"))
		assert.Contains(t, compiled, words(firstCode(doc)), "the comment of %s begins with lines that are in no example", name)
	}
	assert.Greater(t, adapters, 15)
	assert.Equal(t, "x\n\n\ty\n", firstCode("P is\n\n\tx\n\n\t\ty\n\nand\n\tz\n"))
}

// packageDoc returns the comment of a package.
func packageDoc(t *testing.T, dir string) string {
	t.Helper()
	files := testkit.Must(fs.Glob(os.DirFS("../../.."), dir+"/*.go"))(t)
	for _, name := range files {
		if _, file := parsed(t, name, read(t, name)); file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			return file.Doc.Text()
		}
	}
	require.Fail(t, "no package comment", dir)
	return ""
}

// firstCode returns the first lines of a comment that are indented.
func firstCode(doc string) string {
	var code []string
	for line := range strings.SplitSeq(doc, "\n") {
		indented, ok := strings.CutPrefix(line, "\t")
		if !ok && line != "" && len(code) > 0 {
			break
		}
		if ok || len(code) > 0 {
			code = append(code, indented)
		}
	}
	return strings.TrimRight(strings.Join(code, "\n"), "\n") + "\n"
}

// publicPackages are those that a program imports.
func publicPackages(t *testing.T) []string {
	t.Helper()
	repository := os.DirFS("../../..")
	dirs := []string{"."}
	for _, pattern := range []string{"retry*/*.go", "adapters/*/*.go"} {
		files := testkit.Must(fs.Glob(repository, pattern))(t)
		for _, file := range files {
			dirs = append(dirs, path.Dir(file))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// exported returns the names that a package exports: "Policy", "Policy.Execute".
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	files := testkit.Must(fs.Glob(os.DirFS("../../.."), dir+"/*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		_, file := parsed(t, name, read(t, name))
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.IsExported() {
					names = append(names, decl.Name.Name)
				}
			case *ast.GenDecl:
				names = append(names, declared(decl)...)
			}
		}
	}
	return names
}

// declared returns the exported names of a declaration.
func declared(decl *ast.GenDecl) (names []string) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				names = append(names, spec.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && decl.Tok != token.IMPORT {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

var word = regexp.MustCompile(`\w+`)

// wordsOf returns which words a text has.
func wordsOf(text string) map[string]bool {
	found := map[string]bool{}
	for _, w := range word.FindAllString(text, -1) {
		found[w] = true
	}
	return found
}

// pages returns the texts of files.
func pages(t *testing.T, pattern string) string {
	t.Helper()
	files := testkit.Must(fs.Glob(os.DirFS("../../.."), pattern))(t)
	var b strings.Builder
	for _, file := range files {
		b.WriteString(read(t, file) + "\n")
	}
	return b.String()
}

// TestNamesAreTwoHopsAway: from README, over two links, a stranger comes to every exported name.
func TestNamesAreTwoHopsAway(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"README.md": true}
	hop := []string{"README.md"}
	var text strings.Builder
	for range 3 {
		var next []string
		for _, name := range hop {
			page, isPage := open(t, name)
			text.WriteString(page)
			for _, to := range links(name, page) {
				if isPage && !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		hop = next
	}
	said := wordsOf(text.String())
	for _, dir := range publicPackages(t) {
		for _, name := range exported(t, dir) {
			assert.True(t, said[name], "%s: %s is more than two links from README", dir, name)
		}
	}
}

// open returns what somebody sees who follows a link to a file or a folder, and whether it has
// links to follow.
func open(t *testing.T, name string) (text string, isPage bool) {
	t.Helper()
	info := testkit.Must(os.Stat("../../../" + name))(t)
	if !info.IsDir() {
		return read(t, name), path.Ext(name) == ".md"
	}
	if _, err := os.Stat("../../../" + name + "/README.md"); err == nil {
		return read(t, name+"/README.md"), true
	}
	return pages(t, name+"/doc.go") + pages(t, name+"/example*_test.go"), false
}

// links returns the files to which a page leads.
func links(name, page string) (files []string) {
	if info, err := os.Stat("../../../" + name); err == nil && info.IsDir() {
		name += "/README.md"
	}
	for _, m := range linkInLine.FindAllStringSubmatch(page, -1) {
		target, _, _ := strings.Cut(m[1]+m[2]+m[3], "#")
		file := path.Join(path.Dir(name), target)
		if _, err := os.Stat("../../../" + file); target != "" && !hasScheme.MatchString(target) && err == nil {
			files = append(files, file)
		}
	}
	return files
}

// TestLinksLeadToTheExample: a link to the top of a file with many examples leads nowhere.
func TestLinksLeadToTheExample(t *testing.T) {
	t.Parallel()
	pageNames := testkit.Must(fs.Glob(os.DirFS("../../.."), "docs/*.md"))(t)
	for _, name := range append(pageNames, rootDocuments...) {
		for i, line := range strings.Split(read(t, name), "\n") {
			for _, m := range linkInLine.FindAllStringSubmatch(line, -1) {
				target := m[1] + m[2] + m[3]
				if strings.HasSuffix(target, "_test.go") {
					n := strings.Count(read(t, path.Join(path.Dir(name), target)), "\nfunc Example")
					assert.LessOrEqual(t, n, mostExamples, "%s:%d: %s has %d examples: name the line or the type", name, i+1, target, n)
				}
			}
		}
	}
}

// TestWhyHasEveryText: a stranger who has the text of an error finds it in docs/why.md, and
// finds the page from where the text comes from.
func TestWhyHasEveryText(t *testing.T) {
	t.Parallel()
	page, names := read(t, "docs/why.md"), exported(t, ".")
	n := 0
	for r := retry.StopNone + 1; !strings.HasPrefix(r.Error(), "none("); r++ {
		n++
		row := regexp.MustCompile("\\| `retry\\.(Stop\\w+)`<br>`" + r.Error() + "` \\|").FindStringSubmatch(page)
		require.NotNil(t, row, "a row for %v", r)
		assert.Contains(t, names, row[1], "the name of %v", r)
		for _, cause := range []error{nil, context.Canceled, context.DeadlineExceeded} {
			if cause != nil && r != retry.StopCanceled && r != retry.StopDeadline {
				continue
			}
			text := (&retry.Error{Attempts: 2, Stop: r, RetryAfter: 3 * time.Hour, Cause: cause}).Error()
			_, reason, ok := strings.Cut(strings.TrimSuffix(text, ")"), "(")
			if !ok { // attempts and final have none
				reason = "failed after"
			}
			reason, _, _ = strings.Cut(reason, ": ") // the cause
			assert.Contains(t, page, reason, "%v: the page is without a text of the library; "+
				"add it to stops in cmd/retry/internal/why, and there go test . -update", r)
		}
	}
	assert.GreaterOrEqual(t, n, 10)
	for _, m := range regexp.MustCompile(`errors\.New\("retry: (.*)"\)`).FindAllStringSubmatch(read(t, "class.go"), -1) {
		assert.Contains(t, page, m[1])
	}
}

func TestWhyIsLinked(t *testing.T) {
	t.Parallel()
	for file, link := range map[string]string{
		"README.md": "(docs/why.md)", "docs/README.md": "(why.md)", "docs/guide.md": "(why.md", "docs/command.md": "(why.md)",
		"errors.go": "docs/why.md explains every", "retryhttp/transport.go": "docs/why.md", "retryhttp/trip.go": "docs/why.md",
	} {
		assert.Contains(t, read(t, file), link, file)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile("../../../" + file))(t))
}

const (
	mostWords     = 45_000 // of all documents, with what commands make
	mostUserWords = 17_000 // of those that a user reads
)

// userPage matches the documents that a user of the library reads.
var userPage = regexp.MustCompile(`^(README|docs/[^/]+|adapters/README|examples/(\w+/)*README)\.md$`)

// TestDocumentsAreShort: what is said twice is read once, and then nothing is.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	all, user := countWords(t, os.DirFS("../../.."))
	assert.LessOrEqual(t, all, mostWords, "words of all documents")
	assert.LessOrEqual(t, user, mostUserWords, "words of README, docs, adapters/README and examples")
	assert.Greater(t, user, mostUserWords/2, "documents are not found")
}

func TestCountWords(t *testing.T) {
	t.Parallel()
	all, user := countWords(t, fstest.MapFS{
		"README.md":             {Data: []byte("# One two\n\n| a | 1 |\n|---|--:|\n")},
		"docs/guide.md":         {Data: []byte("`x = 1` – two")},
		"docs/evidence/page.md": {Data: []byte("six")},
		"examples/a/README.md":  {Data: []byte("seven")},
		"examples/a/main.go":    {Data: []byte("no word")},
		".git/x.md":             {Data: []byte("hidden")},
	})
	assert.Equal(t, 9, all)
	assert.Equal(t, 8, user)
}

// countWords counts the words of the documents of a repository. A word has a letter or a digit: the
// bars of a table are none.
func countWords(t *testing.T, repository fs.FS) (all, user int) {
	t.Helper()
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && name != ".github" && strings.ContainsAny(path.Base(name)[:1], "._") {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		n := 0
		for field := range strings.FieldsSeq(string(text)) {
			if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				n++
			}
		}
		all += n
		if userPage.MatchString(name) {
			user += n
		}
		return err
	}))
	return all, user
}

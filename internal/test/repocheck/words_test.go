package repocheck_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			if name != "." && strings.ContainsAny(path.Base(name)[:1], "._") {
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

package redact_test

import (
	_ "embed"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/redact"
)

var (
	//go:embed testdata/secrets.txt
	secretTexts string
	//go:embed testdata/prose.txt
	proseTexts string
)

// table returns the texts of a file: one a line.
func table(file string) (texts []string) {
	for line := range strings.Lines(file) {
		if !strings.HasPrefix(line, "# ") {
			texts = append(texts, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "⏎", "\n"))
		}
	}
	return texts
}

// What clients print: no part of a secret is left. Prose stays as it is.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, text := range table(secretTexts) {
		got, settled := redact.Settle(text)
		assert.True(t, settled, "%q", text)
		assert.False(t, strings.Contains(got, "Zq7") || strings.Contains(got, "hunter2"), "%q\nkeeps %q", text, got)
		assert.Equal(t, got, redact.Text(got))
	}
	for _, text := range table(proseTexts) {
		assert.Equal(t, text, redact.Text(text))
	}
}

// Whatever is cut off, and wherever: nothing panics, the text does not grow for ever, and it
// stays the same the next time.
func FuzzForms(f *testing.F) {
	forms := table(secretTexts)
	pick := func(n uint) string { return forms[n%uint(len(forms))] }
	for n := range uint(len(forms)) {
		f.Add(n, n/2, n+1, n/3, "", "\n", "")
	}
	f.Fuzz(func(t *testing.T, one, end, two, begin uint, before, between, after string) {
		a, b := pick(one), pick(two)
		text := before + a[:end%uint(len(a)+1)] + between + b[begin%uint(len(b)+1):] + after
		got, settled := redact.Settle(text)
		assert.True(t, settled, "%q", text)
		assert.LessOrEqual(t, len(got), 2*len(text)+3, "%q", text)
	})
}

// A secret is hidden in any surroundings.
func FuzzSecrets(f *testing.F) {
	f.Add("login: ", ", x")
	f.Add(`"\"`, "'\n")
	f.Add("http://u:p@h/?a=b ", "#x")
	f.Add("-----BEGIN PRIVATE KEY-----", "[")
	f.Add("w///p/pw:", "@")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "s3cret") || !utf8.ValidString(before+after) {
			return
		}
		for _, form := range []string{
			" password=s3cret ", "\npassword: s3cret\n", ` "token": "a s3cret" `, "\nAuthorization: Bot s3cret\n", " " + jwt[:40] + "s3cret ",
			"\nDB_PASSWORD=a;&s3cret\n", "<Password>s3cret</Password>", ` {"secret": ["s3cret"]} `, "\nkey: sk_live_s3cretA1b2C3d4E5\n",
		} {
			got, settled := redact.Settle(before + form + after)
			assert.NotContains(t, got, "s3cret", "%q", before+form+after)
			assert.True(t, settled, "%q", before+form+after)
		}
	})
}

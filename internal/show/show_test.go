package show_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

func TestText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"plain", `größe "a" 日本 €`, `größe "a" 日本 €`},
		{"lines", "a\r\n::error ::b\u2028c\u0085", `a\r\n::error ::b\u2028c\u0085`},
		{"terminal", "\x1b[31mred\x1b]0;title\a\x9b1m\u009b\x7f\x00", `\x1b[31mred\x1b]0;title\a\x9b1m\u009b\x7f\x00`},
		{"direction", "a\u202eb\u2066c\u200f\u200b\ufeff", `a\u202eb\u2066c\u200f\u200b\ufeff`},
		{"not UTF-8", "a\xff\xc3(", `a\xff\xc3(`},
		{"replaced before", "a\ufffd", "a\ufffd"},
		{"escaped before", `a\nb`, `a\nb`},
		{"long", strings.Repeat("x", 201), strings.Repeat("x", 200) + "…"},
		{"a character at the cut", strings.Repeat("x", 199) + "éé", strings.Repeat("x", 199) + "…"},
		{"long and not UTF-8", strings.Repeat("\x80", 1000), strings.Repeat(`\x80`, 200) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, show.Text(tt.text))
		})
	}
	assert.Equal(t, `"a\"\n"`, show.Quote("a\"\n"))
	assert.Equal(t, `"`+strings.Repeat("x", 200)+`"…`, show.Quote(strings.Repeat("x", 10<<20)))
	assert.Equal(t, `x\n`, show.Escape("x\n"))
	for name, want := range map[string]string{"": "", "a: #b": "a: #b", " ::error\n": `" ::error\n"`, "##[group]": `"##[group]"`, "::error ::x": `"::error ::…"`} {
		assert.Equal(t, want, show.Name(name, 10))
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	plain, long := errors.New("boom"), errors.New(strings.Repeat("\n", 10<<20))
	assert.Same(t, plain, show.Error(plain))
	assert.Equal(t, strings.Repeat(`\n`, 200)+"…", show.Error(long).Error())
	assert.ErrorIs(t, show.Error(long), long)
}

func FuzzText(f *testing.F) {
	f.Add("a\n\x1b[1m\u202e\xff é")
	f.Add(strings.Repeat("é", 101))
	f.Fuzz(func(t *testing.T, text string) {
		got := show.Text(text)
		assert.True(t, utf8.ValidString(got))
		assert.Equal(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", got)
		assert.Equal(t, show.Escape(got), got)
		assert.LessOrEqual(t, len(got), 200*len(`\x00`)+len("…"))
	})
}

package retryexec_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// FuzzClassifyExit checks that
//   - a verdict, unless it abstains, has a category, and never says that a
//     command that ran had no effect,
//   - it is the same the next time,
//   - capitals, colors and titles do not change it.
//
// TestOnlyTheEndOfStderrCounts has the long texts, because they make fuzzing
// slow.
func FuzzClassifyExit(f *testing.F) {
	for _, group := range phrases {
		f.Add(uint8(0), 1, group.texts[0], uint(3))
	}
	f.Add(uint8(0), 2, "\x1b[31musage: x", uint(0))
	f.Add(uint8(1), 1, "\x1b]8;;connection", uint(0))
	f.Add(uint8(2), 22, "curl: (22) The requested URL returned error: 503", uint(30))
	f.Add(uint8(4), 255, "\x1b]0;x\apermission denied", uint(70))
	f.Add(uint8(5), -1, "\xff\x00\x1b", uint(1))
	profiles := []retryexec.Profile{
		retryexec.Default(), retryexec.Simple(), retryexec.Curl(), retryexec.Wget(), retryexec.SSH(), retryexec.Rsync(),
	}
	f.Fuzz(func(t *testing.T, which uint8, code int, stderr string, at uint) {
		p := profiles[int(which)%len(profiles)]
		v := p.ClassifyExit(nil, code, stderr)
		if v != (retry.Verdict{}) {
			assert.NotEmpty(t, v.Category)
		}
		assert.LessOrEqual(t, v.Class, retry.RateLimited)
		assert.False(t, v.NotApplied)
		assert.Zero(t, v.After)
		assert.Equal(t, v, p.ClassifyExit(nil, code, stderr))

		plain := strings.ReplaceAll(stderr, "\x1b", "")
		want := p.ClassifyExit(nil, code, plain)
		assert.Equal(t, want, p.ClassifyExit(nil, code, capitals(plain)))
		i := int(at % uint(len(plain)+1))
		for _, escape := range []string{"\x1b[1;31m", "\x1b]0;permission denied\a", "\x1b]8;;x\x1b\\", "\x1b(B", "\x1b7"} {
			assert.Equal(t, want, p.ClassifyExit(nil, code, plain[:i]+escape+plain[i:]), "%q at %d", escape, i)
		}
	})
}

// FuzzLastLine checks that the reason in the text of an error can be printed and
// stored anywhere: one short line of printable characters, valid UTF-8.
func FuzzLastLine(f *testing.F) {
	f.Add("one\ntwo\r\n\x1b[0m\n")
	f.Add("caf\xe9\x00\u2028\u202e")
	f.Add(strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, stderr string) {
		line := retryexec.LastLine(stderr)
		assert.True(t, utf8.ValidString(line), "%q", line)
		assert.LessOrEqual(t, len(line), 500)
		assert.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
		assert.Equal(t, strings.TrimSpace(line), line)
		assert.Equal(t, line, retryexec.LastLine(line))
		if line != "" {
			assert.Equal(t, line, retryexec.LastLine("before\n"+stderr+"\n\x1b[0m\n"))
		}
	})
}

// capitals raises ASCII letters.
func capitals(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

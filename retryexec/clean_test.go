package retryexec_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"text", "Timed OUT\r\n", "timed out\r\n"},
		{"other letters stay", "ÄÖ İ \u212a \xff", "ÄÖ İ \u212a \xff"},
		{"color", "\x1b[1;31mtimed\x1b[0m out", "timed out"},
		{"cursor", "\x1b[2K\x1b[1Gtimed out\x1b[?25h", "timed out"},
		{"intermediates", "\x1b[0 qtimed\x1b[!p out", "timed out"},
		{"title, BEL", "\x1b]0;connection reset\atimed out", "timed out"},
		{"title, ST", "\x1b]0;connection reset\x1b\\timed out", "timed out"},
		{"link", "\x1b]8;;https://x/\x1b\\timed\x1b]8;;\x1b\\ out", "timed out"},
		{"device control", "\x1bPq#0;2\x1b\\timed out", "timed out"},
		{"other strings", "\x1bXa\x1b\\\x1b^b\x1b\\\x1b_c\x1b\\timed out", "timed out"},
		{"character set", "\x1b(Btimed out\x1b)0", "timed out"},
		{"two characters", "\x1b7timed\x1b8 out\x1b=\x1b>\x1bM", "timed out"},
		{"unfinished string ends with its line", "\x1b]0;title\ntimed out", "\ntimed out"},
		{"unfinished string at the end", "timed out\x1b]0;title", "timed out"},
		{"unfinished CSI", "timed out\x1b[1;3", "timed out"},
		{"broken CSI", "\x1b[1;\ntimed out", "\ntimed out"},
		{"two ESC", "\x1b\x1b[1mtimed out", "timed out"},
		{"ESC at the end", "timed out\x1b", "timed out"},
		{"ESC before a line feed", "\x1b\ntimed out", "\ntimed out"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, retryexec.Clean(tt.stderr), tt.name)
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"blank", " \r\n\t\n\x1b[0m\n\u00a0\u2028\n\x00", ""},
		{"one line", "Connection lost", "Connection lost"},
		{"the last of several", "one\ntwo\n", "two"},
		{"the last that is not blank", "one\n two \n\n\t\r\n", "two"},
		{"Windows", "one\r\ntwo\r\n", "two"},
		{"progress", "fatal: 10%\rfatal: 20%\rfatal: stopped", "fatal: stopped"},
		{"progress that is wiped", "fatal\r     \r", "fatal"},
		{"color, and its end on a line of its own", "\x1b[31mfatal\x1b[0m: x\n\x1b[0m\n", "fatal: x"},
		{"title", "one\x1b]0;title\a two", "one two"},
		{"control characters", "a\tb\x00c\ad\x7fe\x9bf\u0085g", "a b c d e\ufffdf g"},
		{"line and paragraph separators", "a\u2028b\u2029c", "a b c"},
		{"a text that turns around", "a\u202eb\u2066c\u200bd", "a b c d"},
		{"not UTF-8", "caf\xe9 \xff\xfe", "caf\ufffd \ufffd\ufffd"},
		{"all of UTF-8", "Größe 日本 🙂", "Größe 日本 🙂"},
		{"as long as may be", "x\n" + strings.Repeat("y", 500), strings.Repeat("y", 500)},
		{"too long", strings.Repeat("y", 501), strings.Repeat("y", 497) + "…"},
		{"cut within a character", "x" + strings.Repeat("é", 250), "x" + strings.Repeat("é", 248) + "…"},
		{"long when it is fit to print", strings.Repeat("\xff", 167), strings.Repeat("\ufffd", 165) + "…"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, retryexec.LastLine(tt.stderr), tt.name)
	}
}

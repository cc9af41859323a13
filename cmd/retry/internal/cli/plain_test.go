package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		`a "b" \n é 世 `:            `a "b" \n é 世 `,
		"\x1b[31m\a\r\n::error\t":  `\x1b[31m\a\r\n::error\t`,
		"\u009b31m \u202e \u2028 ": `\u009b31m \u202e \u2028 `,
		"\xff\ufffd":               `\xff` + "\ufffd",
	} {
		assert.Equal(t, want, cli.Plain(text))
	}
}

// TestArgumentsAreShownEscaped: neither a terminal nor a CI obeys what an argument has.
func TestArgumentsAreShownEscaped(t *testing.T) {
	t.Parallel()
	const bad = "x\x1b[31m\n::error::x\u009b"
	for _, args := range [][]string{
		{bad},
		{"--" + bad, "--", "true"},
		{"-" + bad, "--", "true"},
		{"-b", bad, "--", "true"},
		{"--on-exit", bad, "--", "true"},
		{"-p", bad, "--", "true"},
		{"--policy-name", bad, "--", "true"},
		{"--", bad},
		{"--", "./" + bad},
		{"--log", "json", "--", "./" + bad},
		{"completion", bad},
		{"plan", bad},
		{"why", bad},
		{"why", "503", "-H", bad},
		{"why", "--exit", bad},
		{"check", bad},
		{"storm", bad},
		{"playground", bad},
	} {
		got := run(t, "", args...)
		assert.NotZero(t, got.code)
		assert.Empty(t, got.stdout)
		for _, character := range []string{"\x1b", "\n::", "\u009b"} {
			assert.NotContains(t, got.stderr, character, "%q", args)
		}
		assert.Contains(t, strings.ReplaceAll(got.stderr, `\\`, `\`), `x\x1b[31m\n::error`, "%q", args)
	}
}

package retryexec

import (
	"strings"
	"unicode"
)

// maxLine is the largest number of bytes of the reason in the text of an error.
const maxLine = 500

const (
	bel = '\a'
	esc = '\x1b'
)

// clean returns the first and the last 8 KiB of s without terminal escape sequences and
// in lower case. Only ASCII letters are lowered, since phrases have no others.
func clean(s string) string {
	text := bothEnds(withoutEscapes(s))
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] += 'a' - 'A'
		}
	}
	return string(text)
}

// lastLine returns the last line of s that is not blank, as the reason of a
// failure: valid UTF-8, without control characters and line separators, and cut
// off if it is long.
func lastLine(s string) string {
	text := strings.TrimSpace(strings.Map(printable, string(withoutEscapes(s))))
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(line) <= maxLine {
		return line
	}
	const cut = "…"
	return strings.ToValidUTF8(line[:maxLine-len(cut)], "") + cut // it may end within a character
}

// printable returns r, or its replacement in the text of an error. A carriage
// return ends a line too, because programs draw their progress with it.
func printable(r rune) rune {
	switch {
	case r == '\n', r == '\r':
		return '\n'
	case unicode.IsPrint(r): // so is U+FFFD, which replaces invalid UTF-8
		return r
	default:
		return ' '
	}
}

// withoutEscapes returns s without terminal escape sequences. It takes time in
// proportion to s.
func withoutEscapes(s string) []byte {
	text := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] == esc {
			i = afterEscape(s, i+1)
			continue
		}
		text = append(text, s[i])
		i++
	}
	return text
}

// afterEscape returns the index after the escape sequence whose ESC comes before
// i. An incomplete sequence ends where it breaks off, so that it hides no text
// after it.
//
// https://ecma-international.org/publications-and-standards/standards/ecma-48/
func afterEscape(s string, i int) int {
	if i == len(s) {
		return i
	}
	switch s[i] {
	case '[': // CSI, colors and cursor movements: parameters, intermediates, final
		i = skip(s, i+1, '0', '?')
		i = skip(s, i, ' ', '/')
		return skipOne(s, i, '@', '~')
	case ']', 'P', 'X', '^', '_': // OSC, titles and links; DCS, SOS, PM, APC
		return afterString(s, i+1)
	default: // intermediates and final
		i = skip(s, i, ' ', '/')
		return skipOne(s, i, '0', '~')
	}
}

// afterString returns the index after a control string, which ends with BEL or
// ST, that is ESC \. A line feed breaks it off.
func afterString(s string, i int) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case bel:
			return i + 1
		case '\n', esc: // the \ of ST belongs to this ESC
			return i
		}
	}
	return i
}

// skip returns the index of the first byte from i on that is not in [lo, hi].
func skip(s string, i int, lo, hi byte) int {
	for i < len(s) && lo <= s[i] && s[i] <= hi {
		i++
	}
	return i
}

func skipOne(s string, i int, lo, hi byte) int {
	if i < len(s) && lo <= s[i] && s[i] <= hi {
		i++
	}
	return i
}

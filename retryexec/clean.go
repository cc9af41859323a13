package retryexec

const (
	bel = '\a'
	esc = '\x1b'
)

// clean returns the last 8 KiB of s without terminal escape sequences and in
// lower case. Only ASCII letters are lowered, since phrases have no others. It
// takes time in proportion to s.
func clean(s string) string {
	text := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		if c == esc {
			i = afterEscape(s, i+1)
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		text = append(text, c)
		i++
	}
	return string(text[max(len(text)-tailSize, 0):])
}

// afterEscape returns the index after the escape sequence whose ESC comes before
// i. A sequence that is broken off ends where it breaks, so that it hides nothing
// of what follows.
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

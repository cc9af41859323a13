package redact

import "strings"

const quotes = "\"'`"

// value returns the part of a value that is hidden. spaced says that it may be prose.
func (s *scanner) value(text string, k kind, spaced bool) (from, to int) {
	if from, to, end := unit(text); from > 0 {
		switch quoted := strings.IndexByte(quotes, text[from-1]) >= 0; {
		case to < 0 && quoted: // it was cut off
			to = from + len(lineOf(text[from:]))
		case to < 0:
			to = len(text)
		case names(text[from:to], text[end:]):
			return 0, 0
		case end < len(text) && goesOn(text[end:]):
			return 0, end + s.bare(text[end:])
		}
		if strings.IndexFunc(text[from:to], alphanumeric) < 0 && text[from:to] != hidden && (spaced || k == random) {
			return 0, 0 // of a parser: unexpected token: "}"
		}
		return from, to
	}
	switch {
	case k == header:
		return s.credentials(text, spaced)
	case k == cookies && (!spaced || strings.Contains(text[:s.bare(text)], "=")):
		return 0, len(lineOf(text))
	}
	to = s.bare(text)
	if literals[text[:to]] || names(text[:to], text[to:]) || spaced && !suspect(text[:to], text[to:], k) {
		return 0, 0
	}
	return 0, to
}

// names reports whether what looks like a value is the name of the next one.
func names(text, rest string) bool {
	rest = strings.TrimLeft(rest, " \t")
	return rest != "" && (rest[0] == ':' || rest[0] == '=') && kindOf(text) != harmless
}

// schemes have credentials that may be any word.
var schemes = map[string]bool{
	"bearer": true, "basic": true, "token": true, "negotiate": true, "ntlm": true, "apikey": true, "key": true,
	"digest": true, "oauth": true, "hawk": true, "dpop": true, "aws4-hmac-sha256": true,
}

// credentials returns the part of the value of an Authorization header that is hidden: all
// but the scheme.
func (s *scanner) credentials(text string, spaced bool) (from, to int) {
	size := s.bare(text)
	rest := strings.TrimLeft(text[size:], " ")
	word, from := rest[:s.bare(rest)], len(text)-len(rest)
	listed := schemes[strings.ToLower(text[:size])]
	switch {
	case strings.HasPrefix(text[size:], ",") && strings.Contains(text[:size], "="): // attributes only
		return 0, len(lineOf(text))
	case from == size || strings.IndexFunc(text[:size], func(r rune) bool { return r != '-' && !alphanumeric(r) }) >= 0:
	case strings.Contains(strings.TrimRight(word, "="), "="): // attributes
		return from, from + len(lineOf(rest))
	case listed:
		return from, from + len(word)
	case suspect(word, rest[len(word):], chosen):
		if suspect(text[:size], "x", random) { // no scheme
			from = 0
		}
		return from, len(text) - len(rest) + len(word)
	}
	if spaced && !suspect(text[:size], text[size:], random) {
		return 0, 0
	}
	return 0, size
}

// unit returns where the content of the quoted or bracketed text begins with which a text
// begins, and where it ends; end is behind all. from is 0 if the text begins with neither, and
// to is -1 if there is no end.
func unit(text string) (from, to, end int) {
	const escapes = 8 // at most
	for from < min(len(text), escapes) && text[from] == '\\' {
		from++
	}
	if from == len(text) {
		return 0, 0, 0
	}
	escaped, open := from, text[from]
	from++
	switch {
	case strings.IndexByte(quotes, open) >= 0:
		to, end = closing(text[from:], open, escaped)
	case escaped == 0 && strings.IndexByte("[{(", open) >= 0:
		to = closingBracket(text[from:], open)
		end = to + 1
	default:
		return 0, 0, 0
	}
	if to < 0 {
		return from, -1, 0
	}
	return from, from + to, from + end
}

// closing returns where a quoted text ends, or -1, and where its closing quote does: a quote
// that is not escaped more often than the opening one, unless the backslashes before it are
// escaped themselves.
func closing(text string, quote byte, escapes int) (size, end int) {
	backslashes := 0
	for i := range len(text) {
		switch text[i] {
		case '\\':
			backslashes++
			continue
		case quote:
			if backslashes <= escapes || (backslashes-escapes)%(2*(escapes+1)) == 0 {
				return i - min(backslashes, escapes), i + 1
			}
		}
		backslashes = 0
	}
	return -1, 0
}

// closingBracket returns where a bracketed text ends, or -1. Brackets in quotes do not count.
func closingBracket(text string, open byte) int {
	shut := map[byte]byte{'[': ']', '{': '}', '(': ')'}[open]
	depth := 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == open:
			depth++
		case c == shut:
			if depth--; depth == 0 {
				return i
			}
		case c == '"' || c == '\'' && (i == 0 || !wordByte(text[i-1])): // not of "don't"
			escapes := i - len(strings.TrimRight(text[:i], `\`))
			_, end := closing(text[i+1:], c, escapes)
			i += end
		}
	}
	return -1
}

// goesOn reports whether a value goes on behind its quotes or brackets: []string{"x"},
// 'it'\”s', {a}}b} of ODBC.
func goesOn(text string) bool {
	next := text[min(1, len(text)-1)]
	switch text[0] {
	case '"', '\'', '`', '{':
		return true
	case '\\':
		return next == '\''
	case '}':
		return wordByte(next) || next == ';'
	default:
		return wordByte(text[0])
	}
}

// bare returns the size of a value that has no quotes around it. It ends at a space, and at a
// mark that can end it if another name or nothing follows. Punctuation behind it is not a part
// of it.
func (s *scanner) bare(text string) int {
	const longest = 1024 // of what is quoted or bracketed within, so that the time is linear
	i := 0
loop:
	for ; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n', '\f':
			break loop
		case '\\':
			if i+1 < len(text) && text[i+1] != '\\' && strings.IndexByte(" "+quotes, text[i+1]) >= 0 && strings.IndexByte(s.seen, text[i+1]) < 0 {
				i++ // of libpq, of shells
			}
		case '&', ';', ',':
			if assigns(text[i+1:]) {
				break loop
			}
		case '"', '\'', '`':
			if strings.IndexByte(s.seen, c) >= 0 {
				if i+1 == len(text) || !wordByte(text[i+1]) {
					break loop
				}
				continue
			}
			fallthrough
		case '[', '{', '(':
			if _, _, end := unit(lineOf(text[i:min(i+longest, len(text))])); end > 0 {
				i += end - 1
			}
		case '<':
			if tag(text[i:]) {
				break loop
			}
		}
	}
	return len(strings.TrimRight(text[:i], `.,:;)]}>\`))
}

// assigns reports whether a name and a separator follow.
func assigns(text string) bool {
	const longest = 64
	text = strings.TrimPrefix(strings.TrimLeft(text[:min(len(text), longest)], " "), "amp;")
	for i := range len(text) {
		switch c := text[i]; {
		case c == '=' || c == ':':
			return i > 0
		case !runByte(c) && strings.IndexByte(` []%"'`, c) < 0:
			return false
		}
	}
	return false
}

// tag reports whether a text begins with a tag of XML.
func tag(text string) bool {
	name := strings.TrimLeft(text[1:min(len(text), 64)], "/")
	run := index(name, strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 || !wordByte(byte(r)) && r != ':' }))
	return run > 0 && run < len(name) && (name[run] == '>' || name[run] == '/')
}

// block returns where the text of a block of YAML is: behind a mark at the end of a line, the
// lines that are indented more than the one of the name.
func (s *scanner) block(text string) (from, to int) {
	const longest = 16
	if text == "" || text[0] != '|' && text[0] != '>' {
		return 0, 0
	}
	mark := lineOf(text[:min(len(text), longest)])
	if strings.Trim(mark[1:], digits+"+- ") != "" || len(mark) == len(text) {
		return 0, 0
	}
	indent, size := indentation(s.text[s.line:]), len(mark)
	for size < len(text) {
		line := text[size+1:]
		line = line[:index(line, strings.IndexByte(line, '\n'))]
		if strings.Trim(line, spaces) != "" && indentation(line) <= indent {
			break
		}
		size += 1 + len(line)
	}
	return size - len(strings.TrimLeft(text[len(mark):size], spaces)), size
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " -")) }

func lineOf(text string) string { return text[:index(text, strings.IndexAny(text, "\r\n"))] }

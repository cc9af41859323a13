package redact

import "strings"

const quotes = "\"'`"

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

// element returns where the content of an XML element with the name of a secret is.
func (s *scanner) element(at int) (from, to int) {
	const longest = 256 // tag
	const farthest = 2048
	text := s.text[at+1:]
	if text == "" || !wordByte(text[0]) {
		return at, at
	}
	inside, _, found := strings.Cut(text[:min(len(text), longest)], ">")
	name, _, _ := strings.Cut(inside, " ")
	k := s.kindAt(name[strings.LastIndexByte(name, ':')+1:], at)
	if !found || k == harmless || strings.HasSuffix(inside, "/") {
		return at, at
	}
	content := text[len(inside)+1:]
	size := strings.Index(content[:min(len(content), farthest)], "</"+name)
	if size < 0 && content != "" && wordByte(content[0]) { // it was cut off; not: login <user> <password>
		size = s.bare(content)
	}
	from = at + 1 + len(inside) + 1
	return from, from + max(size, 0)
}

// index returns i as [strings.Index] returns it, or the length of s if it is
// negative.
func index(s string, i int) int {
	if i < 0 {
		return len(s)
	}
	return i
}

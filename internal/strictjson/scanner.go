package strictjson

import (
	"encoding/json"
	"unicode/utf8"
)

// scanner goes over a text that is JSON.
type scanner struct {
	data []byte
	at   int
}

// next moves on to the next token, and returns where it is. Commas and colons say
// nothing in a text that is JSON.
func (s *scanner) next() int {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return s.at
		}
	}
	return s.at
}

// member moves on to the next member of an object or a list, or behind the bracket that
// ends it, and returns false then.
func (s *scanner) member(end byte) bool {
	if s.data[s.next()] != end {
		return true
	}
	s.at++
	return false
}

// skip moves behind the value that is next.
func (s *scanner) skip() {
	s.next()
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
			continue
		default:
			s.skipWord()
		}
		if depth == 0 {
			return
		}
	}
}

// skipString moves behind the string that is here. It reports whether the string has no
// escapes.
func (s *scanner) skipString() (plain bool) {
	plain = true
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] == '\\' {
			plain = false
			s.at++
		}
	}
	s.at++
	return plain
}

// skipWord moves behind the number, or the true, false or null, that is here.
func (s *scanner) skipWord() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return
		default:
			s.at++
		}
	}
}

// text decodes the string that is here.
func (s *scanner) text() string {
	start := s.at
	plain := s.skipString()
	raw := s.data[start:s.at]
	if content := raw[1 : len(raw)-1]; plain && utf8.Valid(content) {
		return string(content)
	}
	var decoded string
	_ = json.Unmarshal(raw, &decoded) // it is a string
	return decoded
}

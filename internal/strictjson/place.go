package strictjson

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Place is where something stands in a text, from 1 on. Columns count characters.
type Place struct{ Line, Column int }

// PlaceOf returns the place of an offset.
func PlaceOf(data []byte, offset int) Place {
	c := newCounter(data)
	return c.place(offset)
}

// Places returns where paths lead in a text that is JSON: to the key of a member, to an
// item of a list, or as far as they go. Of a repeated key it is the last one. It goes over
// the text once, however many paths there are.
func Places(data []byte, paths [][]string) []Place {
	root := &target{}
	for _, path := range paths {
		root.add(path)
	}
	s := searcher{scanner: scanner{data: data}, counter: newCounter(data)}
	root.place = s.place(s.next())
	s.search(root)
	places := make([]Place, len(paths))
	for i, path := range paths {
		places[i] = root.reach(path)
	}
	return places
}

// target is a value to look for, and those in it.
type target struct {
	place   Place // zero until it is found
	members map[string]*target
}

func (t *target) add(path []string) {
	for _, key := range path {
		if t.members == nil {
			t.members = map[string]*target{}
		}
		if t.members[key] == nil {
			t.members[key] = &target{}
		}
		t = t.members[key]
	}
}

// lose forgets what was found in the value.
func (t *target) lose() {
	for _, member := range t.members {
		member.place = Place{}
		member.lose()
	}
}

// reach returns the place of the last value that a path leads to.
func (t *target) reach(path []string) Place {
	at := t.place
	for _, key := range path {
		if t = t.members[key]; t.place == (Place{}) {
			break
		}
		at = t.place
	}
	return at
}

// searcher looks for targets.
type searcher struct {
	scanner
	counter
}

// search goes over the next value, in which it looks for the members of t.
func (s *searcher) search(t *target) {
	if len(t.members) == 0 {
		s.skip()
		return
	}
	switch s.scanner.data[s.next()] {
	case '{':
		s.at++
		for s.member('}') {
			start := s.at
			s.found(t.members[s.text()], start)
		}
	case '[':
		s.at++
		for i := 0; s.member(']'); i++ {
			s.found(t.members[strconv.Itoa(i)], s.at)
		}
	default:
		s.skip()
	}
}

// found goes over the next value, which stands at start and is t if that is not nil.
func (s *searcher) found(t *target, start int) {
	if t == nil {
		s.skip()
		return
	}
	if t.place != (Place{}) {
		t.lose() // the key is repeated
	}
	t.place = s.place(start)
	s.search(t)
}

// counter counts lines and characters.
type counter struct {
	data    []byte
	counted int
	now     Place
}

func newCounter(data []byte) counter { return counter{data: data, now: Place{1, 1}} }

// place returns the place of an offset, which is not before the one of the last call: so
// each byte is counted once.
func (c *counter) place(offset int) Place {
	offset = min(offset, len(c.data))
	for c.counted < offset {
		r, size := utf8.DecodeRune(c.data[c.counted:offset])
		c.counted += size
		if c.now.Column++; r == '\n' {
			c.now.Line++
			c.now.Column = 1
		}
	}
	return c.now
}

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

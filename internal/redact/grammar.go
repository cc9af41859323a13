package redact

import (
	"regexp"
	"strings"
)

// secrets hides what looks like a password, a token or a key:
//
//	password=***, "api_key": "***", Authorization: Bearer ***
//
// It goes over the text once, and finds
//
//	assignment = name separator value
//	name       = word or two, in quotes, brackets, or as --flag
//	separator  = "=" | ":" | ":=" | "=>" | " " behind a flag | "," between quotes
//	value      = quoted | bracketed | an indented block | bare words
//	element    = "<" name ">" value "</" name ">"
//
// and what says itself that it is a secret. Behind "=" or ":" the value of a secret name is
// hidden, whatever it is. Behind ": " there is prose too, as in "get token: context deadline
// exceeded"; there, a value is hidden if it is quoted or bracketed, or looks like a secret.
func secrets(text string) string {
	s := scanner{text: text}
	var out strings.Builder
	copied := 0
	for i := 0; i < len(text); {
		from, to, next := s.scan(i)
		if from < to && text[from:to] != hidden {
			out.WriteString(text[copied:from])
			out.WriteString(hidden)
			copied = to
		}
		i = max(next, to, i+1)
	}
	return out.String() + text[copied:]
}

// scanner is where secrets is in a text.
type scanner struct {
	text        string
	line        int    // where the line begins
	seen        string // the kinds of quotes in the line so far
	first, last span   // the last two words
}

type span struct{ from, to int }

// scan returns the secret that is found at i, and where to go on.
func (s *scanner) scan(i int) (from, to, next int) {
	switch c := s.text[i]; {
	case runByte(c):
		return s.word(i)
	case c == '\n' || c == '\r':
		s.line, s.seen = i+1, ""
	case c == '"' || c == '\'' || c == '`':
		if strings.IndexByte(s.seen, c) < 0 {
			s.seen += string(c)
		}
	case c == '=' || c == ':' || c == ' ' || c == ',':
		from, to = s.assigned(i)
	case c == '<':
		from, to = s.element(i)
	}
	return from, to, i + 1
}

// word reads a word, which may be a name, and may be a secret itself.
func (s *scanner) word(i int) (from, to, next int) {
	text := s.text[i:]
	run := index(text, strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 || !runByte(byte(r)) }))
	if key := strings.Index(text[:run], "-----BEGIN"); key >= 0 {
		if size := privateKey(text[key:]); size > 0 {
			return i + key, i + key + size, 0
		}
	}
	s.first, s.last = s.last, span{i, i + run}
	shown, size := s.standing(text, len(strings.TrimRight(text[:run], ".")))
	return i + shown, i + shown + size, i + run
}

// assigned returns where the secret is that belongs to the name before a separator, if there
// is one.
func (s *scanner) assigned(at int) (from, to int) {
	k, gap := s.nameBefore(at)
	if k == harmless {
		return at, at
	}
	separator, rest := s.text[at], s.text[at+1:]
	value := strings.TrimLeft(rest, " \t")
	if separator == '=' && strings.HasPrefix(rest, ">") { // of Ruby, and PHP, which may break the line
		value = strings.TrimLeft(rest[1:], spaces)
	}
	value = value[len(typed.FindString(value[:min(len(value), 32)])):]
	from = len(s.text) - len(value)
	spaced := separator == ' ' || separator == ':' && (len(value) < len(rest) || strings.ContainsAny(gap, " \t"))
	found := true
	switch separator {
	case '=':
		found = !strings.HasPrefix(rest, "=") && !s.directory(value)
	case ':':
		found = rest != "" && rest[0] != '=' && rest[0] != ':'
		if begin, end := s.block(value); begin < end {
			return from + begin, from + end
		}
	case ',': // ('Authorization', 'Bearer x')
		found = gap != "" && quotesSuspect(value)
	case ' ': // --password x, PASSWORD 'x' of SQL
		found = s.text[s.last.from] == '-' && gap == "" || k == chosen && strings.HasPrefix(value, "'")
	}
	if !found {
		return at, at
	}
	start, end := s.value(value, k, spaced)
	return from + start, from + end
}

// quotesSuspect reports whether a quoted text that looks like a secret follows.
func quotesSuspect(text string) bool {
	from, to, _ := unit(text)
	return from > 0 && to >= 0 && suspect(text[from:to], "x", random)
}

// nameBefore returns the kind of the name before a separator, and what is between the two.
func (s *scanner) nameBefore(at int) (k kind, gap string) {
	const longest = 64
	if at-s.last.to > longest {
		return harmless, ""
	}
	gap = s.text[s.last.to:at]
	spaces := strings.TrimLeft(gap, quotes+`\])`) // behind what closes the name
	if len(spaces) >= len("%5D") && strings.EqualFold(spaces[:len("%5D")], "%5D") {
		spaces = spaces[len("%5D"):]
	}
	if s.text[at] == '=' { // of :=
		spaces = strings.TrimSuffix(spaces, ":")
	}
	if strings.Trim(spaces, " \t") != "" {
		return harmless, ""
	}
	return s.named(gap, s.text[at]), gap
}

// named returns the kind of the name that ends before a gap. Before "key", the name has one
// word more, as in "api key".
func (s *scanner) named(gap string, separator byte) kind {
	first, last := s.text[s.first.from:s.first.to], s.text[s.last.from:s.last.to]
	switch beside := s.first.to+1 == s.last.from; {
	case beside && strings.EqualFold(last, "key") && s.text[s.first.to] == ' ':
		last = s.text[s.first.from:s.last.to]
	case beside && strings.EqualFold(first+last, "identifiedby"), // 'password', in SQL
		beside && separator == ':' && (first == "-u" || first == "--user"): // joe:password, of curl
		return chosen
	case beside && last == "5D" && s.text[s.first.to] == '%': // user%5Bpassword%5D=
		last = first
	case strings.HasPrefix(gap, ")"): // Key (tenant, token)=(1, abc) of PostgreSQL
		list := s.text[max(s.last.from-128, 0):s.last.to]
		for column := range strings.SplitSeq(list[strings.LastIndexByte(list, '(')+1:], ",") {
			if k := kindOf(column); k != harmless {
				return k
			}
		}
	}
	return s.kindAt(last, s.last.from)
}

// kindAt is kindOf for a name at a place. "value" stands for the name before it, as in
// name: PASSWORD, value: x.
func (s *scanner) kindAt(name string, at int) kind {
	if strings.EqualFold(name, "value") || name == "string" {
		if match := pairs.FindStringSubmatch(s.text[max(at-96, 0):at]); match != nil {
			return kindOf(match[1])
		}
	}
	return kindOf(name)
}

// pairs matches the name of a name and a value, before the word "value".
var pairs = regexp.MustCompile(`(?i)(?:name|key)["']?>?\s*[=:]?\s*["']?([\w.-]+)["']?[\s,;]*(?:</\w+>\s*<?)?["']?$`)

// typed is what PHP writes before a value.
var typed = regexp.MustCompile(`^string\(\d+\) `)

// directory reports whether the last word and a value are the working directory of a shell.
func (s *scanner) directory(value string) bool {
	name, before := s.text[s.last.from:s.last.to], s.text[:s.last.from]
	return (name == "PWD" || name == "OLDPWD" || name == "pwd") && strings.HasPrefix(value, "/") &&
		!strings.HasSuffix(strings.TrimRight(before[max(len(before)-8, 0):], " "), ";")
}

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

// schemes are those of which the credentials may be any word.
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

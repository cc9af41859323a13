// Package redact removes the secrets from texts, such as the texts of errors.
package redact

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	hidden = "***"       // replaces a secret
	spaces = " \t\r\n\f" // end a URL; other control characters make it unparsable
	cut    = "…"         // stands for the rest of a text

	// mostText is how many bytes of a text are kept. It bounds the work.
	mostText = 64 << 10
)

// Text removes possible secrets from a text:
//
//	Get "https://example.com/login?token=***": connection refused
//	login: password=***, Authorization: Bearer ***
//
// In URLs, user and password are dropped, or a token in their place; the values of the
// query are replaced, and the fragment is dropped. Scheme, host and path stay, so
// a secret in a path stays too. URLs are found anywhere in the text, also in the
// path of another URL, and quoted as in the errors of net/url and net/http.
// Relative URLs with a query are found too, and user:password@host without a
// scheme. If the parts of a URL are ambiguous, Text removes too much rather than
// too little. See secrets for the rest.
//
// The result is never longer than 64 KiB, nor more than twice as long as the text and 3
// bytes. Of a longer text, the beginning is returned; a secret that is cut off is dropped with
// the last word. Text(Text(text)) is Text(text).
//
// Whatever a stranger writes, Text does not panic: it returns "***" instead.
func Text(text string) (shown string) {
	settled := false
	defer func() {
		if !settled {
			_ = recover()
			shown = hidden
		}
	}()
	shown, settled = settle(text)
	return shown
}

// settle hides secrets until there are none: where quotes do not match, a text may read
// differently when something is hidden. It reports whether that came to an end.
func settle(text string) (shown string, settled bool) {
	const passes = 10 // far more than any known text needs
	for range passes {
		if len(text) > mostText {
			text = text[:strings.LastIndexAny(text[:mostText-len(cut)], spaces)+1] + cut
		}
		shown = secrets(redact(text))
		if shown == text {
			return shown, true
		}
		text = shown
	}
	return text, false
}

// Cut is [Text] for a place that takes no more than most bytes, which are at least 3. A
// longer text ends with "…", and with a whole character before it.
func Cut(text string, most int) string {
	text = Text(text)
	if len(text) <= most {
		return text
	}
	end := max(most-len(cut), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

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

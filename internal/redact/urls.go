package redact

import (
	"regexp"
	"strings"
)

func redact(text string) string {
	r := redactor{
		text:  text,
		space: finder{of: spaces}, line: finder{of: "\r\n"}, query: finder{of: "?#"},
		at: finder{of: "@"}, colon: finder{of: ":"}, atAfterColon: finder{of: "@"}, atAfterWord: finder{of: "@"},
		equals: finder{of: "="},
	}
	r.out.Grow(len(text))
	for pos := 0; pos < len(text); {
		if pos >= r.end {
			if strings.IndexByte(spaces+`"`, text[pos]) >= 0 {
				r.out.WriteByte(text[pos])
				pos++
				continue
			}
			r.end = r.wordEnd(pos)
			r.mark = [2]int{-1, -1}
		}
		pos = r.reference(pos)
	}
	return r.out.String()
}

// redactor copies a text word by word. Its methods that write return the position
// that they reached.
type redactor struct {
	text string
	out  strings.Builder
	end  int  // of the current word
	part bool // the current word is a part of a URL that net/url could not read

	mark [2]int // where the last mark that was found begins and ends

	space, line, query, at, colon, atAfterColon, atAfterWord, equals finder
}

// finder finds the next one of some characters. It remembers the last answer, so
// that no text takes quadratic time.
type finder struct {
	of    string
	next  int
	known bool
}

// from returns the index at or after pos in text; if there is none, the length
// of text. pos must not decrease between calls.
func (f *finder) from(text string, pos int) int {
	if !f.known || f.next < pos {
		f.known = true
		f.next = pos + index(text[pos:], strings.IndexAny(text[pos:], f.of))
	}
	return f.next
}

// index returns i as [strings.Index] returns it, or the length of s if it is
// negative.
func index(s string, i int) int {
	if i < 0 {
		return len(s)
	}
	return i
}

// wordEnd returns the end of the word at pos. A word ends before a space or a
// quote; but a quoted URL may contain spaces, and an unquoted URL may contain
// quotes.
func (r *redactor) wordEnd(pos int) int {
	word := r.text[pos:r.space.from(r.text, pos)]
	if quote := strings.IndexByte(word, '"'); quote >= 0 && !strings.ContainsAny(word[:quote], "/?#") {
		word = word[:quote]
	}
	r.part = false
	if pos == 0 || r.text[pos-1] != '"' {
		return pos + len(word)
	}
	before := strings.TrimRight(r.text[:pos-1], `\`)
	switch closing, _ := closing(r.text[pos:], '"', pos-1-len(before)); {
	case closing <= 0: // nothing before it but its escapes
		return pos + len(word)
	case strings.HasSuffix(before, "invalid port ") || strings.HasSuffix(before, "invalid URL escape "):
		r.part = true // of the password, if that has a slash or a percent sign in it
		return pos + closing
	case quotedURL.MatchString(r.text[pos : pos+closing]):
		return pos + closing
	default:
		return pos + min(len(word), closing)
	}
}

var (
	// quotedURL matches the beginning of a URL, with or without a scheme and a
	// host.
	quotedURL = regexp.MustCompile(`^(?:[A-Za-z0-9+.-]*:/)?/`)

	// authorityMark matches the mark before the authority of a URL. If the URL
	// is itself a part of a URL, the mark may be encoded, even twice.
	authorityMark = regexp.MustCompile(`(?i)(?::|%(?:25)*3a)(?:/|%(?:25)*2f){2}`)

	// hosts matches one host, or several as in MongoDB's URLs, each with an
	// optional port. At the end of a word, punctuation may follow that is not
	// part of the URL.
	hosts = regexp.MustCompile(`^(?:` + host + `(?:,` + host + `)*)?([]).,:;!?'"\\>}` + "`" + `]*)$`)

	hostAndPort = regexp.MustCompile(`^` + host + `$`)

	// queryKey matches the part of a query's key and value that is shown. A key
	// without a value may be the secret.
	queryKey = regexp.MustCompile(`^\??(?:[A-Za-z0-9_.~[\]-]+=)?`)
)

const host = `(?:\[[0-9A-Za-z:.%_~-]*\]|[\pL\pN*._~-]*)(?::[0-9]+)?`

// reference copies the rest of the word from pos on, up to the next place where a
// URL may begin.
func (r *redactor) reference(pos int) int {
	query := min(r.query.from(r.text, pos), r.end)
	head := r.text[pos:query] // all before the query or the fragment
	from, to := r.nextMark(pos)
	marked, before := to <= query, min(from, query)
	colon := r.colon.from(r.text, pos)
	slash := strings.HasPrefix(head, "/")
	switch {
	case r.part:
		return r.hide(r.end)
	case strings.HasPrefix(head, "//") && r.at.from(r.text, pos) < before:
		r.out.WriteString("//")
		return r.authority(pos + 2)
	case !slash && colon < before && r.atAfterColon.from(r.text, colon) < before:
		return r.user(pos, r.text[pos:before])
	case marked && r.text[from:to] == "://":
		r.out.WriteString(r.text[pos:to])
		return r.authority(to)
	case marked:
		r.out.WriteString(r.text[pos:to])
		return r.hide(r.end)
	case slash:
		r.out.WriteString(head)
		return r.parameters(query)
	case r.equals.from(r.text, query) < r.end:
		r.out.WriteString(head)
		return r.parameters(query)
	default: // just words
		next := min(query+1, r.end)
		r.out.WriteString(r.text[pos:next])
		return next
	}
}

// nextMark returns where the next mark before an authority begins and ends; without one in the
// word, both are behind its end. Like a finder, it remembers the answer.
func (r *redactor) nextMark(pos int) (from, to int) {
	if r.mark[0] < pos {
		r.mark = [2]int{r.end + 1, r.end + 1}
		word := r.text[pos:r.end]
		word = word[:strings.LastIndexAny(word, "/Ff")+1] // a mark ends with one of these
		if found := authorityMark.FindStringIndex(word); found != nil {
			r.mark = [2]int{pos + found[0], pos + found[1]}
		}
	}
	return r.mark[0], r.mark[1]
}

// user copies a text that may be user:password@host/path.
func (r *redactor) user(pos int, head string) int {
	host, path, _ := strings.Cut(head, "/")
	switch {
	case strings.Contains(host, "@") && !strings.Contains(path, "@"):
		return r.authority(pos)
	case hostAndPort.MatchString(host): // the @ is in the path
		r.out.WriteString(host)
		return pos + len(host)
	default:
		return r.hide(r.end)
	}
}

// authority copies the authority of a URL, without the user, and what follows up
// to the path.
func (r *redactor) authority(pos int) int {
	rest := r.text[pos:r.end]
	authority := rest[:index(rest, strings.IndexAny(rest, "/?#"))]
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	pos += len(authority)
	match := hosts.FindStringSubmatch(host)
	if match == nil || match[1] != "" && pos < r.end {
		return r.unparsable()
	}
	r.out.WriteString(host)
	if pos < r.end && r.text[pos] == '/' {
		return pos // there may be a URL in the path
	}
	return r.parameters(pos)
}

// unparsable hides the rest of a URL. If there is an @ in the rest of the line,
// the user may extend up to it.
func (r *redactor) unparsable() int {
	line := r.line.from(r.text, r.end)
	if r.atAfterWord.from(r.text, r.end) < line {
		return r.hide(line)
	}
	return r.hide(r.end)
}

// parameters copies the query, which is at pos if there is one. It replaces its
// values and drops the fragment.
func (r *redactor) parameters(pos int) int {
	query, _, _ := strings.Cut(r.text[pos:r.end], "#")
	for i, pair := range strings.Split(query, "&") {
		if i > 0 {
			r.out.WriteByte('&')
		}
		r.out.WriteString(queryKey.FindString(pair))
		if strings.Trim(pair, "?") != "" {
			r.out.WriteString(hidden)
		}
	}
	return r.end
}

// hide writes the mark of a hidden part.
func (r *redactor) hide(end int) int {
	r.out.WriteString(hidden)
	return end
}

// Package show writes texts from outside into errors, log lines and terminals. They may
// come from a stranger: they must not begin a line, move a cursor, turn the direction of
// the text, or fill a disk.
package show

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// most is how many bytes of a text are shown.
const most = 200

// Text returns a text with at most 200 of its bytes, and everything in it escaped that
// cannot be printed, as in a Go string: \n, \x1b, \u202e, \xff. It takes no longer for a long
// text than for a short one. A text that was escaped stays as it is.
func Text(s string) string { return Cut(s, most) }

// Cut is [Text] for another number of bytes.
func Cut(s string, most int) string {
	if len(s) <= most {
		return Escape(s)
	}
	return Escape(s[:wholeRunes(s, most)]) + "…"
}

// Name is [Cut] for a name with which a line may begin. It is quoted if it looks like a
// command to a CI, such as ::error or ##[group].
func Name(s string, most int) string {
	s = Cut(s, most)
	if start := strings.TrimLeft(s, " "); start != "" && (start[0] == ':' || start[0] == '#') {
		return `"` + s + `"`
	}
	return s
}

// Quote is [Text] in quotes, which are escaped too.
func Quote(s string) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:wholeRunes(s, most)]) + "…"
}

// wholeRunes returns the largest index up to end where no character is cut in two.
func wholeRunes(s string, end int) int {
	for back := range utf8.UTFMax {
		if back < end && utf8.RuneStart(s[end-back]) {
			return end - back
		}
	}
	return end // it is not UTF-8
}

// Escape is [Text] for a text of any length.
func Escape(s string) string {
	if clean(s) {
		return s
	}
	b := make([]byte, 0, len(s)+len(s)/4)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if printable(r, size) {
			b = append(b, s[i:i+size]...)
		} else {
			quoted := strconv.Quote(s[i : i+size])
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}

func clean(s string) bool {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !printable(r, size) {
			return false
		}
		i += size
	}
	return true
}

// printable reports whether a character is one that a terminal shows and a reader sees:
// no control, no format such as a turn of the direction, no separator of lines.
func printable(r rune, size int) bool {
	return strconv.IsPrint(r) && (r != utf8.RuneError || size > 1)
}

// Error returns err if its text is short and printable. Otherwise it returns an error with
// the text as [Text] shows it, which wraps err.
func Error(err error) error {
	text := err.Error()
	if shown := Text(text); shown != text {
		return &shownError{shown, err}
	}
	return err
}

type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }

func (e *shownError) Unwrap() error { return e.err }

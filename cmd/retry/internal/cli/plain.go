package cli

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// plain returns text with escapes, as in Go, in place of line breaks and of everything else
// that is not printable. An argument or the name of a file can have characters that a
// terminal obeys, or a line that a CI takes for an order.
func plain(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(text[:size])
		} else {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// message returns the text of an error to print. The faults of a policy have a line each.
func message(err error) string {
	var invalid *retrypolicies.InvalidError
	var several interface{ Unwrap() []error }
	if !errors.As(err, &invalid) && !errors.As(err, &several) {
		return plain(err.Error())
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

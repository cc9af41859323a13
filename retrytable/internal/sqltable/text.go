package sqltable

import (
	"strings"
	"unicode"

	"github.com/seed-5ff3c98e/retry/internal/redact"
)

const (
	longestText = 2048      // in bytes; an index of PostgreSQL has room for it
	longestRead = 16 * 1024 // of a text, because to redact it takes time
	omission    = "\n[...]\n"
	tail        = 512 // bytes of a long text's end, where errors have their causes
)

// Storable is a text without secrets and control characters, and not too long.
func Storable(text string) string {
	if len(text) > longestRead { // and no part of a word, which may be a part of a secret
		text = text[:longestRead]
		if end := strings.LastIndexAny(text, " \n\"<>{}"); end > 0 {
			text = text[:end]
		}
	}
	text = redact.Text(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r // or U+FFFD, if it is none
	}, text))
	if len(text) <= longestText {
		return text
	}
	head := text[:longestText-tail-len(omission)]
	return strings.ToValidUTF8(head, "") + omission + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// word is a text that is short, such as a category, or nil for none.
func word(text string) any {
	const most = 100
	if text = Storable(text); text == "" {
		return nil
	}
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// plain is the part of a text that any column takes which takes texts at all.
func plain(text string) string {
	const most = 100
	text = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

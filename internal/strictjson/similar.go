package strictjson

import "strings"

// similar returns the key of fs that looks most like an unknown key, or "". Case,
// underscores and dashes do not count, and one character in three may be wrong.
func (fs Fields) similar(unknown string) string {
	unknown = letters(unknown)
	best, least := "", 0
	for key := range fs {
		plain := letters(key)
		most := len(plain) / 3
		if n := len(unknown) - len(plain); n < -most || n > most {
			continue // the unknown key may be very long
		}
		n := distance(unknown, plain)
		if n <= most && (best == "" || n < least || n == least && key < best) {
			best, least = key, n
		}
	}
	return best
}

// Misspells reports whether text is name in another spelling: with other case, dashes,
// underscores or spaces, with one letter that is wrong, missing or too many, or with two
// neighbours swapped. The first letter is right: "sending" is a word of its own beside
// "pending".
func Misspells(text, name string) bool {
	if len(text) > 2*len(name) {
		return false
	}
	text, name = letters(text), letters(name)
	if text == "" || name == "" || text[0] != name[0] {
		return false
	}
	n := len(text) - len(name)
	return n >= -1 && n <= 1 && (distance(text, name) <= 1 || swapped(text, name))
}

// swapped reports whether b is a with two neighbours swapped.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// separators takes away what does not count. To make a Replacer costs far more than to use it.
var separators = strings.NewReplacer("_", "", "-", "", " ", "")

func letters(key string) string { return separators.Replace(strings.ToLower(key)) }

// distance returns how many bytes must be changed, added or taken away to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // the distances of a so far from the beginnings of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

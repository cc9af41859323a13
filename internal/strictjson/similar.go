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

func letters(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

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

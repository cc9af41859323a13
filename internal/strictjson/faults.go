package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Faults collects everything that is wrong with a document.
type Faults []error

// MostFaults is how many faults are noted. It keeps the error readable, and the work
// small if everything is wrong with a long document.
const MostFaults = 100

// fault is one thing that is wrong.
type fault struct {
	path *Path
	text string
}

func (f *fault) Error() string { return f.text }

// Add notes a fault of the field at path, whose value is fit to be shown. Of the faults
// after [MostFaults] it notes only that there are more.
func (f *Faults) Add(path *Path, value any, problem string) {
	switch {
	case f.full():
	case len(*f) == MostFaults:
		*f = append(*f, errors.New("and more"))
	case path == nil:
		*f = append(*f, &fault{nil, fmt.Sprintf("policy: %v: %s", value, problem)})
	default:
		*f = append(*f, &fault{path, fmt.Sprintf("%s: %v: %s", path, value, problem)})
	}
}

// Locate adds their lines to the faults of a document that was decoded from data. If all
// of it is in one line, they stay as they are.
func (f *Faults) Locate(data []byte) {
	if len(*f) == 0 || !bytes.Contains(data, []byte("\n")) {
		return
	}
	noted := (*f)[:min(len(*f), MostFaults)] // without "and more"
	paths := make([][]string, len(noted))
	for i, fault := range noted {
		paths[i] = PathOf(fault)
	}
	for i, place := range Places(data, paths) {
		noted[i] = fmt.Errorf("%w (line %d of the policy)", noted[i], place.Line)
	}
}

// PathOf returns the path of a fault, by keys and, in lists, indexes.
func PathOf(err error) []string {
	if f := (*fault)(nil); errors.As(err, &f) {
		return f.path.keys()
	}
	return nil
}

// full reports whether no further fault is noted.
func (f *Faults) full() bool { return len(*f) > MostFaults }

// Path leads from a document to a value in it. nil leads to the document. Texts are made
// of it only if there is a fault.
type Path struct {
	from  *Path
	key   string
	index int // of a list, if not negative
}

// At returns the path of a member of the document.
func At(key string) *Path { return (*Path)(nil).Key(key) }

// Key returns the path of a member of the object at p.
func (p *Path) Key(key string) *Path { return &Path{p, key, -1} }

// Index returns the path of an item of the list at p.
func (p *Path) Index(i int) *Path { return &Path{p, "", i} }

// String returns a path like "backoff.schedule[2]". It stays short even if the keys are
// long, because they come from outside.
func (p *Path) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return p.from.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return strings.TrimPrefix(p.from.String()+"."+show.Name(p.key, shown), ".")
	}
}

// keys returns the path as keys and, in lists, indexes.
func (p *Path) keys() []string {
	var keys []string
	for ; p != nil; p = p.from {
		key := p.key
		if p.index >= 0 {
			key = strconv.Itoa(p.index)
		}
		keys = append(keys, key)
	}
	slices.Reverse(keys)
	return keys
}

// Follow returns path as far as it leads in a document.
func Follow(document any, path []string) []string {
	for n, key := range path {
		member, ok := any(nil), false
		switch v := document.(type) {
		case Object:
			member, ok = v[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
				member, ok = v[i], true
			}
		}
		if !ok {
			return path[:n]
		}
		document = member
	}
	return path
}

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

package strictjson

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

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

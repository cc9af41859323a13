package strictjson_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	const text = "\n {\"größe\": [1, \n\t{\"b.c\": null}],\"a\":{\"x\":1},\n\"a\": {\"\\u0062\":[[\"]\"],2]}}"
	tests := []struct {
		path []string
		want strictjson.Place
	}{
		{nil, strictjson.Place{Line: 2, Column: 2}},
		{[]string{"größe"}, strictjson.Place{Line: 2, Column: 3}},
		{[]string{"größe", "0"}, strictjson.Place{Line: 2, Column: 13}},
		{[]string{"größe", "1"}, strictjson.Place{Line: 3, Column: 2}},
		{[]string{"größe", "1", "b.c"}, strictjson.Place{Line: 3, Column: 3}},
		{[]string{"größe", "1", "b.c", "d"}, strictjson.Place{Line: 3, Column: 3}},
		{[]string{"größe", "2"}, strictjson.Place{Line: 2, Column: 3}},
		{[]string{"a"}, strictjson.Place{Line: 4, Column: 1}},
		{[]string{"a", "x"}, strictjson.Place{Line: 4, Column: 1}},
		{[]string{"a", "b", "1"}, strictjson.Place{Line: 4, Column: 23}},
		{[]string{"nowhere", "at", "all"}, strictjson.Place{Line: 2, Column: 2}},
	}
	paths := make([][]string, len(tests))
	for i, tt := range tests {
		paths[i] = tt.path
	}
	got := strictjson.Places([]byte(text), paths)
	for i, tt := range tests {
		assert.Equal(t, tt.want, got[i], tt.path)
		assert.Equal(t, tt.want, strictjson.Places([]byte(text), [][]string{tt.path})[0], tt.path)
	}
}

// TestPlacesOfAnything compares with a writer that counts what it writes.
func TestPlacesOfAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 14))
	for range 300 {
		w := writer{r: r}
		w.value(nil, 0)
		require.True(t, json.Valid([]byte(w.text.String())), w.text.String())
		got := strictjson.Places([]byte(w.text.String()), w.paths)
		require.Equal(t, w.places, got, w.text.String())
	}
}

// writer writes JSON at random, and notes where everything is.
type writer struct {
	r      *rand.Rand
	text   strings.Builder
	paths  [][]string
	places []strictjson.Place
}

func (w *writer) note(path []string) {
	text := w.text.String()
	line := text[strings.LastIndexByte(text, '\n')+1:]
	w.paths = append(w.paths, path)
	w.places = append(w.places, strictjson.Place{Line: 1 + strings.Count(text, "\n"), Column: 1 + utf8.RuneCountInString(line)})
}

func (w *writer) space() {
	for w.r.IntN(3) == 0 {
		w.text.WriteByte(" \n\t\r"[w.r.IntN(4)])
	}
}

func (w *writer) value(path []string, depth int) {
	if depth == 0 {
		w.space()
		w.note(path)
	}
	kind := w.r.IntN(4)
	if depth > 3 {
		kind += 2
	}
	n := w.r.IntN(4)
	switch kind {
	case 0, 1:
		w.text.WriteByte("{["[kind])
		w.space()
		for i := range n {
			if i > 0 {
				w.text.WriteByte(',')
				w.space()
			}
			key := strconv.Itoa(i)
			if kind == 0 {
				key = fmt.Sprint([]string{"ä", "\\", "]}", "k"}[w.r.IntN(4)], i)
			}
			at := append(slices.Clip(path), key)
			w.note(at)
			if kind == 0 {
				fmt.Fprintf(&w.text, "%q", key)
				w.space()
				w.text.WriteByte(':')
				w.space()
			}
			w.value(at, depth+1)
			w.space()
		}
		w.text.WriteByte("}]"[kind])
	default:
		w.text.WriteString([]string{"0", "-1.5e3", "true", "null", `"é,]}\"\\"`, `""`}[w.r.IntN(6)])
	}
}

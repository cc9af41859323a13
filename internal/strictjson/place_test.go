package strictjson_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

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

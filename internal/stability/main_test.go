package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPage: the page has each exported name and nothing else, each with a sentence, and what is
// stable is as it was.
func TestPage(t *testing.T) {
	t.Parallel()
	require.NoError(t, run("../..", true))
	text, err := os.ReadFile("../../" + page)
	require.NoError(t, err)
	rows := parse(string(text))
	assert.Greater(t, len(rows), 500)
	for _, r := range rows {
		assert.Contains(t, []string{stable, mayChange}, r.status, r.name)
		isField := strings.HasPrefix(r.what, "field ") || strings.HasPrefix(r.what, "embedded ")
		assert.True(t, r.sentence != "" || isField, "%s has no comment", r.name)
	}
}

func TestExported(t *testing.T) {
	t.Parallel()
	rows, err := exported(fstest.MapFS{
		"a.go": {Data: []byte(`// Package retry.
package retry

// T is [U]. More.
type T[K any] struct {
	// A is one.
	A, B int
	c int
	*U // is embedded
}

// Do does.
func (t *T[K]) Do(n int) (err error) { return nil }

func (t *T[K]) do() {}

type hidden struct{}

// Do is hidden too.
func (hidden) Do() {}

// The classes.
const (
	One K = iota
	Two // is two
	three
)

// U is an interface.
type U interface {
	// M is a method.
	M(a int)
	N()
	own()
}
`)},
		"a_windows.go":           {Data: []byte("package retry\n\n// U is twice.\ntype U interface{}\n")},
		"a_test.go":              {Data: []byte("package retry\n\n// X is a test's.\nfunc X() {}\n")},
		"retryx/x.go":            {Data: []byte("package retryx\n\n// F is a function.\nfunc F() {}\n")},
		"retryx/sub/x.go":        {Data: []byte("package sub\n\n// V is a variable.\nvar V = 1\n")},
		"retryx/internal/x/x.go": {Data: []byte("package x\n\nfunc F() {}\n")},
		"lab/x.go":               {Data: []byte("package lab\n\nfunc F() {}\n")},
	})
	require.NoError(t, err)
	for i := range rows {
		rows[i].status = stable
	}
	assert.Equal(t, header+`stable	retry.One	const K	The classes.
stable	retry.T	struct	T is U.
stable	retry.T.A	field int	A is one.
stable	retry.T.B	field int	A is one.
stable	retry.T.Do	func(n int) (err error)	Do does.
stable	retry.T.U	embedded *U	is embedded
stable	retry.Two	const K	is two
stable	retry.U	type interface { M(a int); N() }	U is an interface.
stable	retryx.F	func()	F is a function.
stable	retryx/sub.V	var	V is a variable.
`, format(rows))
	assert.Equal(t, rows, parse(format(rows)))
}

func TestCompare(t *testing.T) {
	t.Parallel()
	was := []row{
		{stable, "retry.A", "func()", "A."},
		{mayChange, "retry.B", "func()", "B."},
		{stable, "retry.Gone", "func()", "C."},
		{mayChange, "retry.GoneToo", "func()", "D."},
	}
	rows, faults := compare(was, []row{{"", "retry.A", "func(int)", "A."}, {"", "retry.B", "func(int)", "B."}, {"", "retry.New", "func()", "N."}})
	assert.Equal(t, []string{`retry.A is "func(int)", and was "func()"`, "retry.Gone is gone"}, faults)
	assert.Equal(t, []row{
		{stable, "retry.A", "func(int)", "A."}, {mayChange, "retry.B", "func(int)", "B."}, {mayChange, "retry.New", "func()", "N."},
	}, rows)
}

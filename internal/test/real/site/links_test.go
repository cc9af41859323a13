package main

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBroken(t *testing.T) {
	t.Parallel()
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	faults, err := broken(fstest.MapFS{
		"index.html": page(`<h1 id="top">x</h1><a href="#top">a</a><a href="docs/a.html#b">a</a><a href="https://example.com">a</a>
			<img src="data:,"><a href="#bottom">x</a><a href="docs">x</a><a href="/docs/a.html">x</a><a href="none.html">x</a><a href="%">x</a>`),
		"docs/a.html": page(`<p id="b"><a href="../index.html#top">x</a><img srcset="p.svg 2x"><script src="none.js"></script><img srcset="q.svg"></p>`),
		"docs/p.svg":  page(""),
		"docs/x.txt":  page(`<a href="nowhere">`),
	})
	require.NoError(t, err)
	slices.Sort(faults)
	assert.Equal(t, []string{
		"docs/a.html: leads nowhere: none.js",
		"docs/a.html: leads nowhere: q.svg",
		"index.html: leads nowhere: #bottom",
		"index.html: leads nowhere: %",
		"index.html: leads nowhere: /docs/a.html",
		"index.html: leads nowhere: docs",
		"index.html: leads nowhere: none.html",
	}, faults)
}

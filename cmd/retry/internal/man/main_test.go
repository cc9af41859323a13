package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPagesAreUpToDate: what is committed is what the command makes.
func TestPagesAreUpToDate(t *testing.T) {
	t.Parallel()
	committed, dir := filepath.Join("..", "..", "man"), t.TempDir()
	require.NoError(t, write(dir, filepath.Join("..", "..", changelog)))
	pages, err := os.ReadDir(dir)
	require.NoError(t, err)
	there, err := os.ReadDir(committed)
	require.NoError(t, err)
	require.Len(t, there, len(pages))
	for _, page := range pages {
		want, err := os.ReadFile(filepath.Join(dir, page.Name()))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(committed, page.Name()))
		require.NoError(t, err, "run go generate")
		assert.Equal(t, string(want), string(got), "%s: run go generate", page.Name())
	}
}

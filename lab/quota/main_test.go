package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/evidence/quota.md"

// The page shows what the simulation finds, and what was measured.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	now, err := splice(string(text), "../"+rawFile)
	require.NoError(t, err)
	assert.Equal(t, now, string(text), "run go run ./quota ../docs/evidence/quota.md in lab")
}

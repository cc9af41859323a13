package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const page = "../../docs/evidence/quota.md"

// The page shows what the simulation finds, and what was measured.
func TestPage(t *testing.T) {
	t.Parallel()
	text := testkit.Must(os.ReadFile(page))(t)
	now := testkit.Must(splice(string(text), "../"+rawFile))(t)
	assert.Equal(t, now, string(text), "run go run ./quota ../docs/evidence/quota.md in lab")
}

package cli_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Behind a limit, jobs that share a Quota are refused far less often than those that do not.
func TestPlanBacklog(t *testing.T) {
	t.Parallel()
	got := run(t, "", "plan", "-n", "2", "--limit", "20/1s", "--backlog", "300")
	assert.Contains(t, got.stdout, "Behind a limit of 20 requests in 1s, 300 jobs, 100 at a time:")
	rows := regexp.MustCompile(`(?m)^(each waits by its own hint|they share a Quota) +(\d+) +\d+.*s$`).FindAllStringSubmatch(got.stdout, -1)
	require.Len(t, rows, 2, got.stdout)
	alone, err := strconv.Atoi(rows[0][2])
	require.NoError(t, err)
	shared, err := strconv.Atoi(rows[1][2])
	require.NoError(t, err)
	assert.Greater(t, alone, 10*shared)
	assert.NotContains(t, run(t, "", "plan", "-n", "2").stdout, "Behind a limit")
	for _, args := range [][]string{
		{"--limit", "20"},
		{"--limit", "0/1s"},
		{"--limit", "20/0s"},
		{"--limit", "x/1s"},
		{"--limit", "/"},
		{"--limit", "20/1s", "--backlog", "0"},
		{"--limit", "20/1s", "--backlog", "1000000"},
	} {
		got := run(t, "", append([]string{"plan"}, args...)...)
		assert.Equal(t, 125, got.code, args)
		assert.Contains(t, got.stderr, args[len(args)-1])
	}
}

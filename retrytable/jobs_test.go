package retrytable_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Failures are alike if their texts differ in nothing but what a job has for itself.
func TestPattern(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"dial tcp 10.1.2.3:5432: connection refused":                "dial tcp *: connection refused",
		"read tcp 10.1.2.3:51234->10.9.8.7:443: reset":              "read tcp *: reset",
		"status 503 Service Unavailable":                            "status 503 Service Unavailable",
		"ERROR: deadlock detected (SQLSTATE 40P01)":                 "ERROR: deadlock detected (SQLSTATE 40P01)",
		"Error 1213 (40001): Deadlock":                              "Error 1213 (*): Deadlock",
		"user 123e4567-e89b-12d3-a456-426614174000 is gone":         "user * is gone",
		"no order 10047 of customer 7":                              "no order * of customer 7",
		"request req_8fa93b failed":                                 "request * failed",
		"token=*** is refused":                                      "token=*** is refused",
		strings.Repeat("a very long text ", 18) + "cut in the midd": strings.TrimSpace(strings.Repeat("a very long text ", 17)) + " a very long text cut in the*",
	} {
		assert.Equal(t, want, retrytable.Pattern(text))
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "ready", retrytable.Ready.String())
	assert.Equal(t, "waiting|dead", (retrytable.Waiting | retrytable.Dead).String())
}

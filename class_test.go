package retry_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

func TestClassNames(t *testing.T) {
	t.Parallel()
	tests := map[retry.Class]string{
		retry.Unknown:     "unknown",
		retry.Final:       "final",
		retry.Retryable:   "retryable",
		retry.RateLimited: "rate_limited",
	}
	for class, name := range tests {
		assert.Equal(t, name, class.String())
		text, err := json.Marshal(map[string]retry.Class{"class": class})
		require.NoError(t, err)
		assert.JSONEq(t, `{"class":"`+name+`"}`, string(text))
		var read map[string]retry.Class
		require.NoError(t, json.Unmarshal(text, &read))
		assert.Equal(t, class, read["class"])
	}
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
	for _, name := range []string{"", "Final", "final ", "unknown(9)", "1"} {
		var class retry.Class
		require.Error(t, class.UnmarshalText([]byte(name)), name)
	}
}

func TestClassText(t *testing.T) {
	t.Parallel()
	classes := []struct {
		class retry.Class
		name  string
	}{
		{retry.Unknown, "unknown"},
		{retry.Final, "final"},
		{retry.Retryable, "retryable"},
		{retry.RateLimited, "rate_limited"},
	}
	for i, c := range classes {
		assert.EqualValues(t, i, c.class, "the numbers may be stored")
		assert.Equal(t, c.name, c.class.String())
		text, err := c.class.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, c.name, string(text))
		back := retry.Class(99)
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, c.class, back)
	}
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
	for _, text := range []string{"", "FINAL", "rate limited", "unknown(9)", "1"} {
		var c retry.Class
		assert.EqualError(t, c.UnmarshalText([]byte(text)), fmt.Sprintf("retry: unknown class %q", text))
	}
}

// TestTextFormsInJSON checks that both serve as values and as map keys.
func TestTextFormsInJSON(t *testing.T) {
	t.Parallel()
	type record struct {
		Stop   retry.StopReason
		Counts map[retry.Class]int
	}
	in := record{retry.StopBudget, map[retry.Class]int{retry.RateLimited: 3, retry.Final: 1}}
	data, err := json.Marshal(in)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Stop": "budget", "Counts": {"rate_limited": 3, "final": 1}}`, string(data))
	var out record
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)
	assert.Error(t, json.Unmarshal([]byte(`{"Stop": "soon"}`), &out))
}

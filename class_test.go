package retry_test

import (
	"encoding/json"
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

func TestVerdictZeroAbstains(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retry.Classify(nil))
	assert.Zero(t, retry.Classify(errNobody))
	assert.Zero(t, retry.ThroughGiveUp(nil))
	assert.Zero(t, (&retry.Policy{}).Classify(nil))
	assert.Zero(t, (*retry.Policy)(nil).Classify(errNobody))
}

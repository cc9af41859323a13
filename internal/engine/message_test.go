package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// What is saved can be read, and what strangers write is an error or what can be.
func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	fields := map[string]string{}
	due := time.UnixMilli(1_800_000_000_123)
	job := retryjob.Stored{State: retry.State{Failures: 2}, Lost: 1}
	require.NoError(t, engine.Save(func(name, value string) { fields[name] = value }, &job, due.Add(-1)))
	get := func(name string) string { return fields[name] }
	var again retryjob.Stored
	at, err := engine.Load(get, &again)
	require.NoError(t, err)
	assert.Equal(t, due, at, "rounded up")
	assert.Equal(t, job, again)

	fields[engine.LostKey] = "99"
	_, err = engine.Load(get, &again)
	require.NoError(t, err)
	assert.Equal(t, 1, again.Lost)
	for name, value := range map[string]string{engine.LostKey: "x", engine.DueKey: "soon", engine.StateKey: "f=-1"} {
		was := fields[name]
		fields[name] = value
		_, err := engine.Load(get, &again)
		require.Error(t, err, name)
		fields[name] = was
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	fields := map[string]string{engine.StateKey: "f=1", engine.DueKey: "2", "mine": "3", "theirs": "4"}
	assert.Equal(t, map[string]string{engine.StateKey: "f=1", engine.DueKey: "2", "mine": "3"}, engine.Take(fields, "mine", "other"))
	assert.Equal(t, map[string]string{"theirs": "4"}, fields)
}

package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/seed-5ff3c98e/retry/cmd/retryvet/golangci"
)

func TestPlugin(t *testing.T) {
	t.Parallel()
	build, err := register.GetPlugin("retryvet")
	require.NoError(t, err)
	for _, tt := range []struct {
		name     string
		settings any
		has, not string
	}{
		{"none", nil, "sleep", "nojitter"},
		{"advice", map[string]any{"advice": true}, "nojitter", "none"},
		{"disable", map[string]any{"disable": []string{"sleep"}}, "leak", "sleep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plugin, err := build(tt.settings)
			require.NoError(t, err)
			assert.Equal(t, register.LoadModeTypesInfo, plugin.GetLoadMode())
			analyzers, err := plugin.BuildAnalyzers()
			require.NoError(t, err)
			var names []string
			for _, a := range analyzers {
				names = append(names, a.Name)
			}
			assert.Contains(t, names, tt.has)
			assert.NotContains(t, names, tt.not)
		})
	}
	_, err = build(map[string]any{"disable": []string{"slep"}})
	assert.EqualError(t, err, `retryvet: disable: there is no check "slep"`)
	_, err = build(map[string]any{"disabled": []string{"sleep"}})
	assert.Error(t, err)
}

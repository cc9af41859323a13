// Package golangci makes retryvet a linter of golangci-lint's module plugins. Import it in
// .custom-gcl.yml, and enable the linter retryvet.
package golangci

import (
	"fmt"
	"slices"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

func init() { register.Plugin("retryvet", New) } //nolint:gochecknoinits // how a plugin registers

// Settings are the settings of the linter in .golangci.yml.
type Settings struct {
	// Advice runs also the checks that are off by default.
	Advice bool `json:"advice"`
	// Disable has the names of checks that are left out.
	Disable []string `json:"disable"`
}

type plugin struct{ settings Settings }

// New returns the linter. It returns an error if the settings are not of their type, or name a
// check that does not exist.
func New(settings any) (register.LinterPlugin, error) {
	s, err := register.DecodeSettings[Settings](settings)
	if err != nil {
		return nil, fmt.Errorf("retryvet: %w", err)
	}
	for _, name := range s.Disable {
		if !exists(name) {
			return nil, fmt.Errorf("retryvet: disable: there is no check %q", name)
		}
	}
	return plugin{s}, nil
}

func exists(name string) bool {
	for _, a := range checks.All() {
		if a.Name == name {
			return true
		}
	}
	return false
}

// BuildAnalyzers returns the checks.
func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	all := checks.Default()
	if p.settings.Advice {
		all = checks.All()
	}
	var enabled []*analysis.Analyzer
	for _, a := range all {
		if !p.disabled(a.Name) {
			enabled = append(enabled, a)
		}
	}
	return enabled, nil
}

func (p plugin) disabled(name string) bool {
	return slices.Contains(p.settings.Disable, name)
}

// GetLoadMode says that the checks need types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }

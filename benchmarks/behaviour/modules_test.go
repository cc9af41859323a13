package behaviour_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is what go.mod says of a library.
type module struct {
	version string
	goMod   string // the path of its go.mod
	needs   string // the version of Go
}

// goTool runs the go command in this module.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	return strings.TrimSpace(string(out))
}

// moduleVersions returns the modules of all contestants. Ours has no version
// here: it is the one of the same commit.
func moduleVersions(t *testing.T) map[string]module {
	t.Helper()
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{if .Replace}}of this commit{{else}}{{.Version}}{{end}}\t{{.GoMod}}\t{{.GoVersion}}"}
	for _, c := range contestants {
		args = append(args, c.module)
	}
	for _, c := range httpContestants {
		args = append(args, c.module)
	}
	for _, c := range grpcContestants {
		args = append(args, c.module)
	}
	modules := map[string]module{}
	for line := range strings.Lines(goTool(t, args...)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		modules[f[0]] = module{f[1], f[2], f[3]}
	}
	return modules
}

// linked returns how many foreign modules a package links.
func linked(t *testing.T, c *contestant) int {
	t.Helper()
	modules := map[string]bool{}
	for line := range strings.Lines(goTool(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", c.pkg)) {
		if path := strings.TrimSpace(line); path != "" && path != c.module {
			modules[path] = true
		}
	}
	return len(modules)
}

// required returns how many modules the go.mod of a library asks for, tests
// included.
func required(t *testing.T, m module) int {
	t.Helper()
	var mod struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(goTool(t, "mod", "edit", "-json", m.goMod)), &mod))
	return len(mod.Require)
}

// lines returns the number of lines of a package, without tests.
func lines(t *testing.T, c *contestant) int {
	t.Helper()
	n := 0
	files := strings.Split(goTool(t, "list", "-f", "{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}", c.pkg), "\t")
	for _, name := range files[1:] {
		src, err := os.ReadFile(filepath.Join(files[0], name))
		require.NoError(t, err)
		n += bytes.Count(src, []byte("\n"))
	}
	return n
}

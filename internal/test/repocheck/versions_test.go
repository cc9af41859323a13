package repocheck_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

var (
	goMinor     = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	requirement = regexp.MustCompile(`(?m)^(?:\t|require )(\S+) (v\S+)`)
)

// TestVersions checks that a dependency has one version in all modules for the same Go. In
// two versions it is downloaded, compiled and checked twice.
func TestVersions(t *testing.T) {
	t.Parallel()
	assert.Empty(t, versionFaults(t, os.DirFS("../../..")), "run make versions")
}

func TestVersionFaults(t *testing.T) {
	t.Parallel()
	const root = "module " + modulePath + "\n\ngo 1.25\n\nrequire example.com/x v1.2.0\nrequire " + modulePath + " v0.1.0\n"
	for name, tt := range map[string]struct{ nested, fault string }{
		"the same":   {"go 1.25.0\n\nrequire (\n\texample.com/x v1.2.0 // indirect\n)\n", ""},
		"older":      {"go 1.25.3\n\nrequire (\n\texample.com/x v1.1.0\n)\n", "example.com/x: v1.1.0 in a/go.mod, v1.2.0 in go.mod"},
		"a newer Go": {"go 1.26\n\nrequire example.com/x v1.3.0\n", ""},
		"our own":    {"go 1.25\n\nrequire " + modulePath + " v0.2.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := versionFaults(t, fstest.MapFS{
				"go.mod":                &fstest.MapFile{Data: []byte(root)},
				"a/go.mod":              &fstest.MapFile{Data: []byte(tt.nested)},
				"internal/tools/go.mod": &fstest.MapFile{Data: []byte("go 1.25\n\nrequire example.com/x v1.0.0\n")},
			})
			assert.Equal(t, tt.fault, strings.Join(faults, "; "))
		})
	}
}

func versionFaults(t *testing.T, repository fs.FS) (faults []string) {
	t.Helper()
	type dependency struct{ goVersion, path string }
	type use struct{ version, file string }
	first := map[dependency]use{}
	err := fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || name == toolsModule):
			return fs.SkipDir
		case path.Base(name) != "go.mod":
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
			dep := dependency{goMinor.FindStringSubmatch(string(text))[1], m[1]}
			if other, ok := first[dep]; !ok {
				first[dep] = use{m[2], name}
			} else if other.version != m[2] && !strings.HasPrefix(dep.path, modulePath) {
				faults = append(faults, fmt.Sprintf("%s: %s in %s, %s in %s",
					dep.path, other.version, other.file, m[2], name))
			}
		}
		return nil
	})
	assert.NoError(t, err)
	return faults
}

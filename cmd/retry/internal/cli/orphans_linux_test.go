package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOrphansAreReaped: a run waits until an orphan is gone, which a zombie never is. Other
// orphans end together with the runs, whose exit codes stay theirs.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"during a run": "(sleep 0.01 & echo $! >pid); while test -e /proc/$(cat pid); do sleep 0.01; done; test $n != 3",
		"at its end":   "(true &); (exec true &); exit $((n > 19 ? 8 : 7))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, quick(append([]string{"-n", "unlimited", "--until-fails", "--on-exit", "7"}, counting(script)...)...)...)
			cmd.Env = append(cmd.Env, asInit+"=1")
			got := finish(t, cmd)
			assert.Equal(t, 0, got.code, got.stderr)
			for line := range strings.Lines(got.stderr) {
				assert.Regexp(t, `^retry: attempt \d+: work: (exit status 7|the command succeeded, but .*); again in 1ms\n$`, line)
			}
		})
	}
}

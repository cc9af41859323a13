package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestFollow feeds a run with events of every kind.
func TestFollow(t *testing.T) {
	t.Parallel()
	events := make(chan event, 20)
	for _, e := range []event{
		{Action: "start", Package: "a"},
		{Action: "run", Package: "a", Test: "TestX"},
		{Action: "output", Package: "a", Test: "TestX", Output: "not shown\n"},
		{Action: "pass", Package: "a", Test: "TestX"},
		{Action: "output", Package: "a", Test: "TestDB", Output: "    db_test.go:12: needs PostgreSQL\n"},
		{Action: "output", Package: "a", Test: "TestDB", Output: "--- SKIP: TestDB (0.00s)\n"},
		{Action: "skip", Package: "a", Test: "TestDB"},
		{Action: "pass", Package: "a", Elapsed: 1.25},
		{Action: "skip", Package: "empty"},
		{Action: "output", Package: "b", Test: "TestY", Output: "    y_test.go:3: shown\n"},
		{Action: "fail", Package: "b", Test: "TestY"},
		{Action: "output", Package: "b", Test: "TestZ", Output: "panic: boom\n"},
		{Action: "fail", Package: "b"},
		{Action: "build-output", ImportPath: "c", Output: "c.go:1: no Go\n"},
		{Action: "build-fail", ImportPath: "c"},
	} {
		events <- e
	}
	close(events)
	var out bytes.Buffer
	all := totals{modules: 1, skipped: map[string]int{}}
	all.follow(&out, ".", events)
	assert.Equal(t, "ok   a 1.2s\n    y_test.go:3: shown\npanic: boom\nFAIL b\nc.go:1: no Go\nFAIL c\n", out.String())
	assert.Equal(t, "test: FAILED: b, c; 1 tests passed in 3s; 1 left out: needs PostgreSQL (1)", all.String(3*time.Second))
	all.failed, all.skipped = nil, nil
	assert.Equal(t, "test: 1 tests in 1 packages of 1 modules passed in 3s; nothing was left out", all.String(3*time.Second))
}

// TestRunFailure checks the failures of go test itself.
func TestRunFailure(t *testing.T) {
	t.Parallel()
	all := totals{skipped: map[string]int{}}
	assert.Error(t, all.run(&bytes.Buffer{}, filepath.Join(t.TempDir(), "nowhere"), nil))
	assert.Equal(t, "no reason given", reason(nil))
}

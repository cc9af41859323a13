package main

import (
	"bytes"
	"errors"
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
		{Action: moduleBegins, module: "./m"},
		{Action: moduleBegins, module: "./n"},
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
		{Action: moduleEnds, module: "./m"},
		{Action: moduleEnds, module: "./n", err: errors.New("no go")},
	} {
		events <- e
	}
	close(events)
	var out bytes.Buffer
	all := totals{skipped: map[string]int{}}
	all.follow(&out, events)
	assert.Equal(t, "== ./m\n== ./n\nok   a 1.2s\n    y_test.go:3: shown\npanic: boom\nFAIL b\nc.go:1: no Go\nFAIL c\nFAIL ./n: no go\n", out.String())
	assert.Equal(t, "test: FAILED: b, c, ./n; 1 tests passed in 3s; 1 left out: needs PostgreSQL (1)", all.String(3*time.Second))
	all.failed, all.skipped = nil, nil
	assert.Equal(t, "test: 1 tests in 1 packages of 2 modules passed in 3s; nothing was left out", all.String(3*time.Second))
}

// TestRunFailure checks the failures of go test itself.
func TestRunFailure(t *testing.T) {
	t.Parallel()
	events := make(chan event, 10)
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	test([]string{nowhere, nowhere}, nil, 2, events)
	close(events)
	var ends int
	for e := range events {
		if e.Action == moduleEnds {
			ends++
			assert.Error(t, e.err)
		}
	}
	assert.Equal(t, 2, ends)
	assert.Equal(t, "no reason given", reason(nil))
}

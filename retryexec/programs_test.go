package retryexec_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

func TestSimple(t *testing.T) {
	t.Parallel()
	simple := retryexec.Simple()
	tests := []struct {
		code   int
		stderr string
		want   retry.Verdict
	}{
		{1, "", verdict(retry.Unknown, "exit_1")},
		{1, "boom", verdict(retry.Unknown, "exit_1")},
		{1, "request timeout", verdict(retry.Retryable, "stderr_transient")},
		{1, "Rate Limit reached", verdict(retry.Retryable, "stderr_transient")},
		{1, "connection refused", verdict(retry.Retryable, "stderr_transient")},
		{1, "connection: permission denied", verdict(retry.Retryable, "stderr_transient")},
		{1, "context deadline exceeded", verdict(retry.Retryable, "stderr_transient")},
		{4, "context deadline exceeded", verdict(retry.Retryable, "stderr_transient")},
		{1, "Permission denied", verdict(retry.Final, "stderr_invalid")},
		{1, "invalid argument", verdict(retry.Final, "stderr_invalid")},
		{1, "not found", verdict(retry.Final, "stderr_invalid")},
		{2, "", verdict(retry.Final, "exit_2")},
		{2, "timeout", verdict(retry.Final, "exit_2")},
		{75, "", verdict(retry.Final, "exit_75")},
		{255, "connection lost", verdict(retry.Final, "exit_255")},
		{-1, "", verdict(retry.Unknown, "exit_unknown")},
		{0, "timeout", retry.Verdict{}},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, simple.ClassifyExit(nil, tt.code, tt.stderr), "%d %q", tt.code, tt.stderr)
	}
	assert.Equal(t, verdict(retry.Retryable, "timeout"), simple.ClassifyExit(context.DeadlineExceeded, -1, ""))
	assert.Equal(t, verdict(retry.Retryable, "timeout"), simple.Classify(fmt.Errorf("x: %w", context.DeadlineExceeded)))
	assert.Equal(t, verdict(retry.Final, "not_found"), simple.Classify(&exec.Error{Name: "x", Err: exec.ErrNotFound}))
}

// TestPrograms checks the verdicts of the profiles about every exit code.
func TestPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		profile          retryexec.Profile
		retryable, final []int
	}{
		{
			"curl", retryexec.Curl(),
			[]int{5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92, 95},
			[]int{1, 2, 3, 4, 23, 26, 27, 43, 60, 67, 77},
		},
		{"wget", retryexec.Wget(), []int{4}, []int{1, 2, 6, 7}},
		{"ssh", retryexec.SSH(), []int{255}, nil},
		{"rsync", retryexec.Rsync(), []int{10, 12, 30, 35}, []int{1, 2, 3, 5}},
	}
	for _, tt := range tests {
		for code := -1; code <= 256; code++ {
			var want retry.Verdict
			switch {
			case slices.Contains(tt.retryable, code):
				want = verdict(retry.Retryable, "exit_"+strconv.Itoa(code))
			case slices.Contains(tt.final, code):
				want = verdict(retry.Final, "exit_"+strconv.Itoa(code))
			}
			assert.Equal(t, want, tt.profile.ClassifyExit(nil, code, "boom"), "%s %d", tt.name, code)
		}
	}
}

// TestStatusesOfPrograms are told by curl --fail and wget.
func TestStatusesOfPrograms(t *testing.T) {
	t.Parallel()
	classes := map[retry.Class][]int{
		retry.RateLimited: {420, 429, 509, 529},
		retry.Retryable:   {408, 421, 425, 449, 500, 502, 503, 504, 520, 521, 522, 523, 524, 530, 598, 599},
	}
	names := map[retry.Class]string{
		retry.RateLimited: "stderr_rate_limit", retry.Retryable: "stderr_transient", retry.Final: "stderr_invalid",
	}
	for status := 300; status < 600; status++ {
		want := retry.Final
		for class, statuses := range classes {
			if slices.Contains(statuses, status) {
				want = class
			}
		}
		assert.Equal(t, verdict(want, names[want]), retryexec.Curl().ClassifyExit(nil, 22,
			fmt.Sprintf("curl: (22) The requested URL returned error: %d\n", status)))
		assert.Equal(t, verdict(want, names[want]), retryexec.Wget().ClassifyExit(nil, 8,
			fmt.Sprintf("2026-11-20 12:00:00 ERROR %d: Whatever.\n", status)))
	}
	assert.Zero(t, retryexec.Curl().ClassifyExit(nil, 22, "error: 5031"))
	assert.Zero(t, retryexec.Curl().ClassifyExit(nil, 94, "returned error: 503"))
	assert.Zero(t, retryexec.Wget().ClassifyExit(nil, 3, "ERROR 503: Service Unavailable."))
}

func TestSSH(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]retry.Verdict{
		"git@x: Permission denied (publickey).":               verdict(retry.Final, "stderr_auth"),
		"Host key verification failed.":                       verdict(retry.Final, "stderr_auth"),
		"unknown option -- y\nusage: ssh [-46AaCf]":           verdict(retry.Final, "stderr_usage"),
		"ssh: connect to host x port 22: Connection refused":  verdict(retry.Retryable, "exit_255"),
		"Warning: Identity file k: No such file or directory": verdict(retry.Retryable, "exit_255"),
	} {
		assert.Equal(t, want, retryexec.SSH().ClassifyExit(nil, 255, stderr), stderr)
		assert.Zero(t, retryexec.SSH().ClassifyExit(nil, 1, stderr), "of the remote command")
	}
}

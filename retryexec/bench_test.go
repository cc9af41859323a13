package retryexec_test

import (
	"strings"
	"testing"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

// BenchmarkClassifyExit measures a full 8 KiB of text without a known phrase.
func BenchmarkClassifyExit(b *testing.B) {
	stderr := strings.Repeat("a line of text without anything in it, error 5\n", 200)
	b.SetBytes(8 << 10)
	for b.Loop() {
		retryexec.ClassifyExit(nil, 1, stderr)
	}
}

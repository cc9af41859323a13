//go:build !race

package retrygrpc_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAllocs counts what a call that succeeds at once allocates, client and server: the
// Interceptor allocates nothing, and grpc makes a copy of the trailer because it is asked
// for it.
func TestAllocs(t *testing.T) { //nolint:paralleltest // counts what others allocate
	const calls = 1000
	var bare float64
	for _, way := range ways {
		call := caller(t, way.method, way.opts()...)
		got := math.Inf(1)
		for range 5 { // a pool may be emptied by the garbage collector
			got = min(got, testing.AllocsPerRun(calls, call))
		}
		if way.name == "by=hand" {
			bare = got
			continue
		}
		assert.LessOrEqual(t, got-bare, 1.0, way.name)
	}
}

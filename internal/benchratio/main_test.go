package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	const in = `goos: linux
BenchmarkSuccess/by=hand-2         	1000	 2.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkSuccess/by=retry-2        	1000	 3.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkNext-2                    	1000	100 ns/op	 8 B/op	 1 allocs/op
PASS
goos: linux
BenchmarkSuccess/by=hand-2         	1000	 20.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkSuccess/by=retry-2        	1000	 30.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkNext-2                    	1000	300 ns/op	 8 B/op	 2 allocs/op
PASS
goos: linux
BenchmarkSuccess/by=hand           	1000	 1.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkSuccess/by=retry          	1000	 9.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkNext                      	1000	1e+03 ns/op	 8 B/op	 1 allocs/op
PASS
`
	var out strings.Builder
	require.NoError(t, run(strings.NewReader(in), &out))
	// The slow round counts once, although it is slow on both sides.
	assert.Equal(t, `  by hand ns  retry ns  ratio  allocs  benchmark
         2.0       9.0   1.50       0  Success
                 300.0              2  Next
`, out.String())
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"nothing", "PASS\n", "no benchmark"},
		{"a failure", "BenchmarkA-2 10 1 ns/op\n--- FAIL: BenchmarkB\n", "failed"},
		{"half a pair", "BenchmarkA/by=hand-2 10 1 ns/op\n", "1 rounds by hand and 0 by retry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.ErrorContains(t, run(strings.NewReader(tt.in), &strings.Builder{}), tt.want)
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 2.0, median([]float64{3, 1, 2}))
	assert.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
}

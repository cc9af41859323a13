package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	began := make([]int, 60)
	for i := range began {
		began[i] = 10
	}
	// good has 10 successes in every second from, but for those of bad.
	good := func(from int, bad ...int) []int {
		ns := make([]int, 60)
		for i := from; i < 60; i++ {
			ns[i] = 10
		}
		for _, i := range bad {
			ns[i] = 0
		}
		return ns
	}
	tests := []struct {
		name string
		good []int
		want time.Duration
	}{
		{"at once", good(20), 0},
		{"it was never away", good(0), 0},
		{"after 7 s", good(27), 7 * time.Second},
		{"again later", good(20, 40), 21 * time.Second},
		{"in the last window", good(20, 45), 26 * time.Second},
		{"the last window is the only good one", good(20, 54), 35 * time.Second},
		{"not in the last window", good(20, 55), service.Never},
		{"never", make([]int, 60), service.Never},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, service.Recovery(test.good, began, 20, 60, 0.99), test.name)
	}
	assert.Equal(t, time.Duration(0), service.Recovery(make([]int, 60), make([]int, 60), 20, 60, 0.99), "no calls, no failures")
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	got := service.Summarize([]service.Result{
		{Amplification: 1, Peak: 1, Recovery: 10 * time.Second, During: 0.5, After: 1, P50: time.Second, P99: 2 * time.Second},
		{Amplification: 2, Peak: 5, Recovery: service.Never, During: 0, After: 0, P50: 2 * time.Second, P99: 3 * time.Second},
		{Amplification: 3, Peak: 3, Recovery: 20 * time.Second, During: 1, After: 0.5, P50: 3 * time.Second, P99: 4 * time.Second},
	})
	assert.Equal(t, service.Summary{
		Amplification: 2, WorstAmplification: 3, Peak: 5,
		Recovery: 15 * time.Second, WorstRecovery: 20 * time.Second, Never: 1, Runs: 3,
		During: 0.5, After: 0.5, P50: 2 * time.Second, P99: 3 * time.Second,
	}, got)
	assert.Equal(t, 2, service.Summarize([]service.Result{{Recovery: service.Never}, {Recovery: service.Never}}).Never)
}

package service

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// RunSeeds runs s with n seeds, beginning with its own, as many at a time as
// there are processors. The results are in the order of the seeds.
func RunSeeds(s Scenario, strategy Strategy, n int) ([]Result, error) {
	results, errs := make([]Result, n), make([]error, n)
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	var stop atomic.Bool // what fails with one seed fails with the others
	var wg sync.WaitGroup
	for i := range n {
		running <- struct{}{}
		if stop.Load() {
			break
		}
		wg.Go(func() {
			defer func() { <-running }()
			s := s
			s.Seed += uint64(i)
			if results[i], errs[i] = Run(s, strategy); errs[i] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Summary is what several runs have in common: means, and the worst of them.
type Summary struct {
	Amplification, WorstAmplification float64
	Peak                              float64 // the worst
	Recovery, WorstRecovery           time.Duration
	Never                             int // runs without recovery, which the mean leaves out
	Runs                              int
	During, After                     float64
	P50, P99                          time.Duration
}

// Summarize returns the summary of at least one result.
func Summarize(results []Result) Summary {
	var sum Summary
	sum.Runs = len(results)
	for i := range results {
		r := &results[i]
		sum.Amplification += r.Amplification
		sum.WorstAmplification = max(sum.WorstAmplification, r.Amplification)
		sum.Peak = max(sum.Peak, r.Peak)
		sum.During += r.During
		sum.After += r.After
		sum.P50 += r.P50
		sum.P99 += r.P99
		if r.Recovery == Never {
			sum.Never++
			continue
		}
		sum.Recovery += r.Recovery
		sum.WorstRecovery = max(sum.WorstRecovery, r.Recovery)
	}
	n := len(results)
	sum.Amplification /= float64(n)
	sum.During /= float64(n)
	sum.After /= float64(n)
	sum.P50 /= time.Duration(n)
	sum.P99 /= time.Duration(n)
	sum.Recovery /= time.Duration(max(n-sum.Never, 1))
	return sum
}

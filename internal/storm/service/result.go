package service

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Never is the Recovery of a service that is not well again when the run ends.
const Never = time.Duration(-1)

// Result is what a strategy made of a fault.
type Result struct {
	// Amplification is attempts per call during the fault.
	Amplification float64
	// Peak is the load of the busiest second since the fault began, as a
	// multiple of the rate of calls.
	Peak float64
	// Recovery is the time from the end of the fault until every later window
	// of 5 seconds has 99 % of the success before the fault. It is a whole
	// number of seconds, or Never.
	Recovery time.Duration
	// During and After are the shares of calls that succeeded, among those that
	// began during the fault and in the minute after it.
	During, After float64
	// P50 and P99 are how long the calls of both had to wait for their outcome.
	// A call without one counts with what it has waited so far.
	P50, P99 time.Duration

	// Calls = Succeeded + Failed + InFlight, over the whole run.
	Calls, Succeeded, Failed, InFlight int

	// Attempts counts those that began in each second of the run, and Good the
	// calls that began in it and succeeded.
	Attempts, Good []int
}

const (
	minWarmup = 20 * time.Second
	minAfter  = time.Minute
	// Calls that begin shortly before the fault may end in it, and those at the
	// beginning meet a service that is still empty.
	skippedBefore = 5 * time.Second
	skippedStart  = 5 * time.Second
	// The minute of Result.After.
	aftermath = time.Minute
)

func (r *run) result() Result {
	s := r.scenario
	began := make([]int, len(r.attempts)) // calls of each second
	res := Result{Attempts: r.attempts, Good: make([]int, len(r.attempts)), Calls: len(r.calls)}
	var during, after share
	var waits []time.Duration
	for i := range r.calls {
		c := &r.calls[i]
		second := seconds(c.begun)
		began[second]++
		switch c.outcome {
		case succeeded:
			res.Succeeded++
			res.Good[second]++
		case failed:
			res.Failed++
		default:
			res.InFlight++
			c.ended = s.end()
		}
		switch {
		case c.begun < s.Warmup || c.begun >= s.faultEnd()+aftermath:
			continue
		case c.begun < s.faultEnd():
			during.add(c.outcome == succeeded)
		default:
			after.add(c.outcome == succeeded)
		}
		waits = append(waits, c.ended-c.begun)
	}
	res.During, res.After = during.value(), after.value()
	slices.Sort(waits)
	res.P50, res.P99 = quantile(waits, 0.5), quantile(waits, 0.99)

	begin, end := seconds(s.Warmup), seconds(s.faultEnd())
	res.Amplification = ratio(sum(r.attempts[begin:end]), sum(began[begin:end]))
	res.Peak = float64(slices.Max(r.attempts[begin:])) / s.Rate
	well := 0.99 * ratio(
		sum(res.Good[seconds(skippedStart):seconds(s.Warmup-skippedBefore)]),
		sum(began[seconds(skippedStart):seconds(s.Warmup-skippedBefore)]))
	res.Recovery = recovery(res.Good, began, end, seconds(s.judgedEnd()), well)
	return res
}

// recovery returns how long after second end the first window begins from which
// on every window of 5 seconds, up to second last, is well.
func recovery(good, began []int, end, last int, well float64) time.Duration {
	const window = 5
	first := last - window + 1 // where the well windows begin, so far
	for start := last - window; start >= end; start-- {
		if ratio(sum(good[start:start+window]), sum(began[start:start+window])) < well {
			break
		}
		first = start
	}
	if first > last-window {
		return Never
	}
	return time.Duration(first-end) * time.Second
}

// share counts how many of some calls succeeded.
type share struct{ good, all int }

func (s *share) add(good bool) {
	s.all++
	if good {
		s.good++
	}
}

func (s *share) value() float64 { return ratio(s.good, s.all) }

// ratio returns a/b, and 1 if there is nothing to compare.
func ratio(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

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

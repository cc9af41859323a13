// Compare runs the same jobs on each engine, once under the engine's own policy and once
// under ours, and prints what it has measured, for docs/evidence/engines.md:
//
//	go run ./compare >table/compare.json
//
// It measures what a retry costs, in time and in messages to the server, and says when
// the engine's own policy has a job run again that was told when to come back, and how
// often it runs jobs that nothing can help. It needs the servers that the tests need.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// bed is an engine with an empty queue.
type bed interface {
	// submit submits jobs.
	submit(ctx context.Context, jobs ...string) error

	// start starts workers under p, or under the engine's own policy if p is nil. If
	// quick, that has no waits.
	start(p *retry.Policy, quick bool, handle handler) (stop func(), err error)

	// sent returns how many messages were sent to the server.
	sent() int64

	// close removes the queue.
	close() error
}

type handler func(ctx context.Context, job string) error

// engine is how to make beds, with what the page says about the engine.
type engine struct {
	Name    string
	Own     string // what the engine does by itself
	Message string // what is counted
	open    func(ctx context.Context) (bed, error)
}

// result is what was measured of an engine.
type result struct {
	Engine  string
	Own     string
	Message string

	OwnTime time.Duration // of a retry
	OurTime time.Duration
	Extra   float64 // messages for a retry
	OwnRun  shown
	Ours    shown
}

// shown is what one policy did.
type shown struct {
	Hint    time.Duration // when a job came again that was told to come in hint; 0 is never
	Final   int           // attempts of a job with a Final error
	Failing int           // attempts of a job that always fails
	Watched time.Duration
}

const (
	rounds   = 15
	jobs     = 100
	failures = 3
	hint     = 2 * time.Second
	most     = 1000 // attempts of a job
)

func main() {
	watch := flag.Duration("watch", time.Minute, "how long the engines' own policies are watched")
	only := flag.String("engine", "", "only the engine of this name")
	flag.Parse()
	if err := run(context.Background(), *watch, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, watch time.Duration, only string) error {
	var results []result
	for _, e := range engines() {
		if only != "" && only != e.Name {
			continue
		}
		r := result{Engine: e.Name, Own: e.Own, Message: e.Message}
		err := errors.Join(e.overhead(ctx, &r), e.show(ctx, watch, &r))
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		results = append(results, r)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "\t")
	return encoder.Encode(results)
}

// overhead measures in turns, so that both see the same machine, and compares the best.
func (e *engine) overhead(ctx context.Context, r *result) (err error) {
	ours := &retry.Policy{MaxAttempts: failures + 1, Backoff: retry.Constant(0)}
	b, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	least := map[*retry.Policy]time.Duration{}
	sent := map[*retry.Policy][]float64{}
	for range rounds {
		for _, p := range []*retry.Policy{nil, ours} {
			took, messages, err := measure(ctx, b, p)
			if err != nil {
				return err
			}
			if least[p] == 0 || took < least[p] {
				least[p] = took
			}
			sent[p] = append(sent[p], float64(messages)/(jobs*failures))
		}
	}
	r.OwnTime, r.OurTime = least[nil]/(jobs*failures), least[ours]/(jobs*failures)
	r.Extra = median(sent[ours]) - median(sent[nil])
	return nil
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// measure has jobs fail and succeed, and returns how long that took.
func measure(ctx context.Context, b bed, p *retry.Policy) (took time.Duration, messages int64, err error) {
	round := rand.Text()
	var names []string
	for i := range jobs {
		names = append(names, fmt.Sprint(round, "-", i))
	}
	if err := b.submit(ctx, names...); err != nil {
		return 0, 0, err
	}
	var all sync.WaitGroup
	all.Add(jobs)
	var mu sync.Mutex
	attempts := map[string]int{}
	before, start := b.sent(), time.Now()
	stop, err := b.start(p, true, func(_ context.Context, job string) error {
		mu.Lock()
		defer mu.Unlock()
		attempts[job]++
		if attempts[job] <= failures {
			return errors.New("boom")
		}
		if attempts[job] == failures+1 {
			all.Done()
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	all.Wait()
	took, messages = time.Since(start), b.sent()-before
	stop()
	return took, messages, nil
}

// show watches both policies, at the same time.
func (e *engine) show(ctx context.Context, watch time.Duration, r *result) error {
	ours := &retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}}
	var own, our error
	var both sync.WaitGroup
	both.Go(func() { r.OwnRun, own = e.watch(ctx, nil, watch) })
	both.Go(func() { r.Ours, our = e.watch(ctx, ours, watch) })
	both.Wait()
	return errors.Join(own, our)
}

// watch runs three jobs: one that is told when to come back, and then succeeds, one with
// a Final error, and one that fails each time.
func (e *engine) watch(ctx context.Context, p *retry.Policy, watch time.Duration) (s shown, err error) {
	b, err := e.open(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var mu sync.Mutex
	var first time.Time
	stop, err := b.start(p, false, func(_ context.Context, job string) error {
		mu.Lock()
		defer mu.Unlock()
		switch job {
		case "limited":
			if first.IsZero() {
				first = time.Now()
				return retry.MarkRateLimited(errors.New("429"), hint)
			}
			s.Hint = time.Since(first)
			return nil
		case "final":
			if s.Final++; s.Final < most {
				return retry.MarkFinal(errors.New("400"))
			}
		case "failing":
			if s.Failing++; s.Failing < most {
				return retry.MarkRetryable(errors.New("503"))
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	err = b.submit(ctx, "limited", "final", "failing")
	time.Sleep(watch)
	stop()
	mu.Lock()
	defer mu.Unlock()
	s.Watched = watch
	return s, err
}

// Package compare shows what a policy does to a service in trouble, beside no retries
// and beside three attempts without a budget. It is what two commands have in common.
package compare

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// Options is what is compared: the result depends on nothing else. Make it with New.
type Options struct {
	Scenario service.Scenario
	Policy   retry.Policy
	Budget   Budget
	Seeds    int // runs, each with a seed of its own

	fault    string
	queue    *int     // nil: the usual one of the fault
	severity *float64 // nil: the usual one of the fault
}

const mostSeeds = 100

// New returns the options that the flags change.
func New() *Options {
	return &Options{Scenario: service.Default(), Policy: service.Budgeted(nil).Policy, Budget: defaultBudget, Seeds: 5}
}

// Flags adds a flag for every option but the policy.
func (o *Options) Flags(f *flag.FlagSet) {
	s := &o.Scenario
	f.Var(&o.Budget, "budget", "`ratio/ttl/reserve` of the retry.Budget of every client, or off")
	f.IntVar(&s.Clients, "clients", s.Clients, "processes that share the calls")
	f.Float64Var(&s.Rate, "rate", s.Rate, "calls per second of all clients together")
	f.IntVar(&s.Workers, "workers", s.Workers, "attempts that the service works on at a time")
	f.DurationVar(&s.Service, "service", s.Service, "mean time to serve an attempt")
	f.DurationVar(&s.Timeout, "timeout", s.Timeout, "of an attempt, unless the policy has one")
	f.Func("queue", "`attempts` that may wait in the service (default: no bound; 500 in a brownout)", func(text string) error {
		n, err := strconv.Atoi(text)
		o.queue = &n
		return err
	})
	f.StringVar(&o.fault, "fault", string(s.Fault), "stall, outage, partial (some attempts fail), brownout (some workers are gone), or quota (a 429 with a hint of 1s)")
	f.DurationVar(&s.Duration, "duration", s.Duration, "of the fault")
	f.Func("severity", "`share` of the workers or attempts that the fault hits (default: 1; 0.5 for partial, brownout and quota)", func(text string) error {
		share, err := strconv.ParseFloat(text, 64)
		o.severity = &share
		return err
	})
	f.DurationVar(&s.After, "after", s.After, "how long to look for a recovery")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "of the first run")
	f.IntVar(&o.Seeds, "seeds", o.Seeds, "runs, whose mean is shown")
}

// Check takes the flags over, and reports all that is wrong with them. dash is what
// the names of flags begin with: "-" or "--".
func (o *Options) Check(dash string) error {
	if o.fault != "" {
		o.Scenario = o.Scenario.Usual(service.Fault(o.fault))
	}
	if o.queue != nil {
		o.Scenario.Queue = *o.queue
	}
	if o.severity != nil {
		o.Scenario.Severity = *o.severity
	}
	var errs []error
	if err := o.Scenario.Validate(); err != nil {
		// The settings have the names of their flags.
		errs = append(errs, errors.New(dash+strings.ReplaceAll(err.Error(), "\n", "\n"+dash)))
	}
	if o.Seeds < 1 || o.Seeds > mostSeeds {
		errs = append(errs, fmt.Errorf("%sseeds: %d: must be from 1 to %d", dash, o.Seeds, mostSeeds))
	}
	return errors.Join(errs...)
}

// Run simulates all strategies with all seeds.
func (o *Options) Run() (compared []service.Strategy, results [][]service.Result, err error) {
	compared = []service.Strategy{
		{Name: "your policy", Policy: o.Policy, Budget: o.Budget.make()},
		named("no retries", service.NoRetries()),
		named("3 attempts, no budget", service.Exponential(3, retry.FullJitter)),
	}
	results = make([][]service.Result, len(compared))
	for i, c := range compared {
		if results[i], err = service.RunSeeds(o.Scenario, c, o.Seeds); err != nil {
			return nil, nil, err
		}
	}
	return compared, results, nil
}

func named(name string, s service.Strategy) service.Strategy {
	s.Name = name
	return s
}

// timeout returns that of an attempt.
func (o *Options) timeout() time.Duration {
	if o.Policy.AttemptTimeout > 0 {
		return o.Policy.AttemptTimeout
	}
	return o.Scenario.Timeout
}

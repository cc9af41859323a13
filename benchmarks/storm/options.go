package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/benchmarks/storm/service"
)

// options is what the flags say.
type options struct {
	scenario        service.Scenario
	policy          retry.Policy
	budget          budget
	seeds           int
	plot, reproduce string
}

const mostSeeds = 100

// parse reads the flags. It prints them to help if they ask for it.
func parse(args []string, help io.Writer) (options, error) {
	o := options{scenario: service.Default(), policy: service.Budgeted(nil).Policy, budget: defaultBudget, seeds: 5}
	var policy, fault string
	var severity float64
	var queue int
	s := &o.scenario
	f := flag.NewFlagSet("storm", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are for the caller
	f.StringVar(&policy, "policy", "", "`file` with the JSON form of a retry.Policy (default: "+o.policy.String()+")")
	f.Var(&o.budget, "budget", "`ratio/ttl/reserve` of the retry.Budget of every client, or off")
	f.IntVar(&s.Clients, "clients", s.Clients, "processes that share the calls")
	f.Float64Var(&s.Rate, "rate", s.Rate, "calls per second of all clients together")
	f.IntVar(&s.Workers, "workers", s.Workers, "attempts that the service works on at a time")
	f.DurationVar(&s.Service, "service", s.Service, "mean time to serve an attempt")
	f.DurationVar(&s.Timeout, "timeout", s.Timeout, "of an attempt, unless the policy has one")
	f.IntVar(&queue, "queue", 0, "attempts that may wait in the service (default: no bound; 500 in a brownout)")
	f.StringVar(&fault, "fault", string(s.Fault), "stall, outage, partial (some attempts fail), or brownout (some workers are gone)")
	f.DurationVar(&s.Duration, "duration", s.Duration, "of the fault")
	f.Float64Var(&severity, "severity", 0, "share of the workers or attempts that the fault hits (default: 1; 0.5 for partial and brownout)")
	f.DurationVar(&s.After, "after", s.After, "how long to look for a recovery")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "of the first run")
	f.IntVar(&o.seeds, "seeds", o.seeds, "runs, whose mean is shown")
	f.StringVar(&o.plot, "plot", "", "`file` for a drawing of the load, in SVG")
	f.StringVar(&o.reproduce, "reproduce", "", "write the tables of docs/storms.md to `file`, and nothing else")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(help)
			f.PrintDefaults()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: there are flags only, no arguments", f.Arg(0))
	}
	*s = s.Usual(service.Fault(fault))
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "queue":
			s.Queue = queue
		case "severity":
			s.Severity = severity
		}
	})
	return o, o.check(policy)
}

// check reads the policy, and reports all that is wrong with the flags.
func (o *options) check(policy string) error {
	var errs []error
	if err := o.scenario.Validate(); err != nil {
		// The settings have the names of their flags.
		errs = append(errs, errors.New("-"+strings.ReplaceAll(err.Error(), "\n", "\n-")))
	}
	if o.seeds < 1 || o.seeds > mostSeeds {
		errs = append(errs, fmt.Errorf("-seeds: %d: must be from 1 to %d", o.seeds, mostSeeds))
	}
	if policy != "" {
		if err := o.readPolicy(policy); err != nil {
			errs = append(errs, fmt.Errorf("-policy: %s: %w", policy, err))
		}
	}
	return errors.Join(errs...)
}

func (o *options) readPolicy(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Unwrap(err) // its text has the name of the file again
	}
	o.policy = retry.Policy{}
	return o.policy.UnmarshalJSON(data)
}

// timeout returns that of an attempt.
func (o *options) timeout() time.Duration {
	if o.policy.AttemptTimeout > 0 {
		return o.policy.AttemptTimeout
	}
	return o.scenario.Timeout
}

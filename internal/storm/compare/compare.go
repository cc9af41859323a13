// Package compare shows what a policy does to a service in trouble, beside no retries
// and beside three attempts without a budget. It is what two commands have in common.
package compare

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
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

// timeout returns the timeout of an attempt.
func (o *Options) timeout() time.Duration {
	if o.Policy.AttemptTimeout > 0 {
		return o.Policy.AttemptTimeout
	}
	return o.Scenario.Timeout
}

// Budget is the value of a flag: the settings of a [retry.Budget]. The zero Budget is
// none.
type Budget struct {
	ratio   float64
	ttl     time.Duration
	reserve int
}

// defaultBudget is the budget of the zero [retry.Budget].
var defaultBudget = Budget{0.1, 5 * time.Second, 3}

const off = "off"

// String implements [flag.Value].
func (b *Budget) String() string {
	if *b == (Budget{}) {
		return off
	}
	return fmt.Sprintf("%v/%v/%d", b.ratio, b.ttl, b.reserve)
}

// Set implements [flag.Value].
func (b *Budget) Set(text string) error {
	if text == off {
		*b = Budget{}
		return nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return fmt.Errorf("want ratio/ttl/reserve, such as %v, or %s", &defaultBudget, off)
	}
	var read Budget
	var err error
	if read.ratio, err = strconv.ParseFloat(parts[0], 64); err != nil || !(read.ratio > 0 && read.ratio <= 1) {
		return errors.New("the ratio must be above 0 and at most 1")
	}
	if read.ttl, err = time.ParseDuration(parts[1]); err != nil || read.ttl <= 0 {
		return errors.New("the ttl must be a positive duration, such as 5s")
	}
	if read.reserve, err = strconv.Atoi(parts[2]); err != nil || read.reserve < 0 {
		return errors.New("the reserve must be a number of retries, 0 or more")
	}
	*b = read
	return nil
}

// make returns what makes the budget of a client, or nil if there is none.
func (b *Budget) make() func() *retry.Budget {
	if *b == (Budget{}) {
		return nil
	}
	reserve := b.reserve
	if reserve == 0 {
		reserve = retry.NoReserve
	}
	return func() *retry.Budget { return &retry.Budget{Ratio: b.ratio, TTL: b.ttl, Reserve: reserve} }
}

// Report prints what the strategies made of the fault: the results of [Options.Run].
func (o *Options) Report(w io.Writer, compared []service.Strategy, results [][]service.Result) error {
	s := &o.Scenario
	fmt.Fprintf(w, "Policy   %v\n", o.Policy)
	fmt.Fprintf(w, "Budget   %v\n", &o.Budget)
	fmt.Fprintf(w, "Service  %v calls/s from %d clients; serves %d at a time in %v, so %.4g/s: %.3g %% are used; timeout %v\n",
		s.Rate, s.Clients, s.Workers, s.Service, s.Capacity(), 100*s.Utilization(), o.timeout())
	fmt.Fprintf(w, "Fault    %s of %.3g %% for %v; %s\n\n", s.Fault, 100*s.Severity, s.Duration, runs(o.Seeds))

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tattempts/call\tpeak load\trecovery\tsuccess in fault\tminute after\tp50 wait\tp99 wait\t")
	for i, c := range compared {
		sum := service.Summarize(results[i])
		fmt.Fprintf(t, "%s\t%.2f\t%.1fx\t%s\t%s\t%s\t%v\t%v\t\n", c.Name,
			sum.Amplification, sum.Peak, Recovery(sum), Percent(sum.During), Percent(sum.After),
			Round(sum.P50), Round(sum.P99))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+verdict(service.Summarize(results[0]), service.Summarize(results[1])))
	return err
}

// verdict says in words what the policy does, compared with no retries.
func verdict(policy, none service.Summary) string {
	switch {
	case policy.Never > 0 && none.Never == 0:
		return "Your policy keeps the overload alive after the fault is over. Give it a budget, or fewer attempts."
	case policy.Never > 0:
		return "The service does not recover, not even without retries."
	case policy.WorstRecovery > none.WorstRecovery*5/4+time.Second:
		return fmt.Sprintf("Your policy delays the recovery by %v. A smaller budget, or reserve, or fewer attempts would help.",
			(policy.Recovery - none.Recovery).Round(time.Second))
	default:
		return fmt.Sprintf("The service recovers as it does without retries. During the fault, %+.1f %% of the calls succeed, for %+.0f %% attempts.",
			100*(policy.During-none.During), 100*(policy.Amplification-none.Amplification))
	}
}

// Recovery returns the mean time of a recovery as text, with the worst in parentheses where it differs.
func Recovery(s service.Summary) string {
	switch {
	case s.Never == s.Runs:
		return "never"
	case s.Never > 0:
		return fmt.Sprintf("never in %d of %d", s.Never, s.Runs)
	case s.WorstRecovery.Round(time.Second) > s.Recovery.Round(time.Second):
		return fmt.Sprintf("%.0f s (%.0f s)", s.Recovery.Seconds(), s.WorstRecovery.Seconds())
	default:
		return fmt.Sprintf("%.0f s", s.Recovery.Seconds())
	}
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("mean of %d runs", n)
}

// Percent returns a share as text.
func Percent(share float64) string {
	switch p := 100 * share; {
	case p < 99:
		return fmt.Sprintf("%.1f %%", p)
	default:
		return fmt.Sprintf("%.2f %%", p)
	}
}

// Round keeps what matters of a wait.
func Round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

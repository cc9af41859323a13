package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
)

// plan shows what a policy will do.
type plan struct {
	policy  policyFlags
	failure float64       // the share of attempts that fail
	takes   time.Duration // an attempt
	rows    int
	backlog backlog
}

const defaultRows = 10

func planCommand() *cobra.Command {
	p := plan{failure: 0.3, rows: defaultRows, backlog: backlog{jobs: 1000}}
	c := &cobra.Command{
		Use:   "plan [flags] [FILE [NAME]]",
		Short: "Show what a policy will do",
		Long: `Plan shows what a policy will do: the range of every wait, when the attempts
begin, and how likely it is that one of them succeeds. The policy is that of a
file, JSON or YAML, of the flags, or of both: then the flags go first. The file
- is standard input.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			for i, arg := range args {
				*[]*string{&p.policy.file, &p.policy.name}[i] = arg
			}
			return p.print(os.Stdout)
		},
	}
	c.Flags().SortFlags = false
	p.policy.register(c.Flags())
	c.Flags().VarP(value[float64]{&p.failure, parseShare, "SHARE"}, "failure", "f", "of attempts that fail, independently; default 0.3")
	c.Flags().Var(value[time.Duration]{&p.takes, parseDuration, "TIME"}, "takes", "how long an attempt takes; default 0")
	c.Flags().Var(value[int]{&p.rows, parseRows, "N"}, "rows", "how many attempts are shown; default 10")
	c.Flags().Var(value[limit]{&p.backlog.limit, parseLimit, "N/TIME"}, "limit",
		"simulate jobs behind N requests in TIME")
	c.Flags().Var(value[int]{&p.backlog.jobs, parseJobs, "N"}, "backlog", "how many jobs are behind the limit; default 1000")
	return c
}

func parseShare(text string) (float64, error) {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, errors.New("must be a share from 0 to 1")
	}
	return math.Abs(share), nil // -0 is 0
}

func parseRows(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, errors.New("must be a number from 1 to 1000")
	}
	return n, nil
}

// row is one attempt.
type row struct {
	attempt              int
	shortest, longest    time.Duration // the wait before it
	earliest, latest     time.Duration // it begins, after the first one
	likely               float64       // that this one or one before it succeeds
	excluded, endangered bool          // it never begins in time, or not with the longest waits
}

// table returns what the policy will do.
func (p *plan) table(policy *retry.Policy) []row {
	attempts := attemptsOf(policy)
	limit := time.Duration(math.MaxInt64)
	if policy.MaxElapsed > 0 {
		limit = policy.MaxElapsed
	}
	if policy.Timeout > 0 {
		limit = min(limit, policy.Timeout-1) // an attempt that begins then has no time
	}
	rows := []row{{attempt: 1, likely: 1 - p.failure}}
	for n := 2; n <= attempts && n <= p.rows; n++ {
		last := rows[len(rows)-1]
		r := row{attempt: n, likely: 1 - math.Pow(p.failure, float64(n))}
		r.shortest, r.longest = policy.Bounds(n - 1)
		r.earliest = add(add(last.earliest, p.takes), r.shortest)
		r.latest = add(add(last.latest, p.takes), r.longest)
		r.excluded, r.endangered = r.earliest > limit, r.latest > limit
		rows = append(rows, r)
	}
	return rows
}

func (p *plan) print(w io.Writer) error {
	policy, err := p.policy.policy()
	if err != nil {
		return err
	}
	rows := p.table(policy)
	fmt.Fprintf(w, "%v\n\n", policy)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "attempt\twait before it\tbegins after\tsucceeded by then\t")
	for _, r := range rows {
		wait, note := span(r.shortest, r.longest), ""
		switch {
		case r.attempt == 1:
			wait = "-"
		case r.excluded:
			note = "  never: out of time"
		case r.endangered:
			note = "  perhaps: the time may be up"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", r.attempt, wait, span(r.earliest, r.latest), percent(r.likely), note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := attemptsOf(policy); more > len(rows) {
		fmt.Fprintf(w, "… and so on, %s in all\n", attemptsText(more))
	}
	fmt.Fprintln(w)
	p.draw(w, rows)
	p.summarize(w, policy, rows)
	if p.backlog.limit.n > 0 {
		return p.backlog.print(w, p.takes)
	}
	return nil
}

// draw draws the range of every wait.
func (p *plan) draw(w io.Writer, rows []row) {
	const width = 60
	longest := time.Duration(0)
	for _, r := range rows {
		longest = max(longest, r.longest)
	}
	if longest == 0 {
		return
	}
	column := func(d time.Duration) int { return int(math.Round(float64(d) / float64(longest) * width)) }
	end := round(longest).String()
	fmt.Fprintf(w, "wait  0%s%s\n", strings.Repeat(" ", width-1-len(end)), end)
	for _, r := range rows[1:] {
		from, to := column(r.shortest), column(r.longest)
		from = min(from, width-1)
		bar := strings.Repeat(" ", from) + strings.Repeat("█", max(to-from, 1))
		fmt.Fprintf(w, "%4d  %s\n", r.attempt-1, bar)
	}
	fmt.Fprintln(w)
}

// summarize says what comes of all attempts, and what a hint does.
func (p *plan) summarize(w io.Writer, policy *retry.Policy, rows []row) {
	attempts := attemptsOf(policy)
	if attempts <= len(rows) {
		last := rows[len(rows)-1]
		fmt.Fprintf(w, "All attempts fail in %s of the calls, if %s of the attempts do; that takes %s.\n",
			percent(1-last.likely), percent(p.failure), span(add(last.earliest, p.takes), add(last.latest, p.takes)))
	}
	if attempts > 1 {
		more := ", and up to 10 % more"
		if policy.Jitter == retry.NoJitter {
			more = ""
		}
		fmt.Fprintf(w, "A server's hint (Retry-After) of up to %v is waited for in place of the wait%s; a longer one ends the call.\n",
			longestHint(policy), more)
	}
}

// longestHint asks the policy which hints it waits for.
func longestHint(policy *retry.Policy) time.Duration {
	unlimited := *policy
	unlimited.Overrides, unlimited.MaxElapsed, unlimited.Timeout = nil, 0, 0
	waits := func(hint time.Duration) bool {
		v := retry.Verdict{Class: retry.RateLimited, After: hint, NotApplied: true}
		return unlimited.Decide(retry.State{}, v, time.Time{}).Retry
	}
	low, high := time.Duration(0), time.Duration(math.MaxInt64)
	for low < high-1 {
		if middle := low + (high-low)/2; waits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// attemptsOf returns how many attempts a policy makes at most.
func attemptsOf(policy *retry.Policy) int {
	d := policy.Decide(retry.State{}, retry.Verdict{Class: retry.Final}, time.Time{})
	return d.Limit
}

func attemptsText(n int) string {
	if n == retry.Unlimited {
		return "an unlimited number"
	}
	return strconv.Itoa(n)
}

func span(low, high time.Duration) string {
	if low == high {
		return round(low).String()
	}
	return round(low).String() + "–" + round(high).String()
}

func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0 || p == 100:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.01:
		return "<0.01 %"
	case p > 99.99:
		return ">99.99 %"
	case p > 99 || p < 1:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// add adds without an overflow.
func add(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}

// backlog is many jobs that come at once, behind a limit that they do not know.
type backlog struct {
	limit limit
	jobs  int
}

// limit is how many requests a server takes in each window of time.
type limit struct {
	n      int
	window time.Duration
}

const mostJobs = 10_000

// String returns what parseLimit reads.
func (l limit) String() string { return fmt.Sprintf("%d/%v", l.n, l.window) }

func parseLimit(text string) (l limit, err error) {
	n, window, _ := strings.Cut(text, "/")
	if l.n, err = strconv.Atoi(n); err == nil && window != "" {
		l.window, err = parseDuration(window)
	}
	if err != nil || l.n < 1 || l.window <= 0 {
		return limit{}, errors.New("must be requests and the time that they are for, such as 50/2s")
	}
	return l, nil
}

func parseJobs(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostJobs {
		return 0, fmt.Errorf("must be a number from 1 to %d", mostJobs)
	}
	return n, nil
}

// print shows what becomes of the jobs, by a simulation: each alone, and behind a Quota.
func (b *backlog) print(w io.Writer, takes time.Duration) error {
	fmt.Fprintf(w, "\nBehind a limit of %d requests in %v, %d jobs, %d at a time:\n\n", b.limit.n, b.limit.window, b.jobs, scene.Places)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\trefused\ttake")
	for _, way := range scene.Backlog(b.limit.n, b.limit.window, b.jobs, takes) {
		fmt.Fprintf(t, "%s\t%d\t%v\n", way.Name, way.Refused, round(way.Took))
	}
	return t.Flush()
}

func stormCommand() *cobra.Command {
	o := compare.New()
	c := &cobra.Command{
		Use:   "storm [flags] [FILE [NAME]]",
		Short: "Simulate what a policy does to a service in trouble",
		Long: `Storm simulates clients of a service with a queue, a fault in it, and a policy with
its budget, beside no retries and beside three attempts without a budget. The policy
is read from a file, JSON or YAML, or - for standard input; without one it is
` + o.Policy.String() + `.
The same flags and the same policy give the same result on the same architecture.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				policy, err := policyFromFile(args[0], append(args, "")[1])
				if err != nil {
					return err
				}
				o.Policy = *policy
			}
			if err := o.Check("--"); err != nil {
				return err
			}
			compared, results, err := o.Run()
			if err != nil {
				return err
			}
			return o.Report(os.Stdout, compared, results)
		},
	}
	flags := flag.NewFlagSet("storm", flag.ContinueOnError)
	o.Flags(flags)
	c.Flags().SortFlags = false
	c.Flags().AddGoFlagSet(flags)
	return c
}

package compare

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

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

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// check looks for faults in files.
type check struct {
	deadline time.Duration
	layers   []string
	strict   bool
	quiet    bool

	faults, warnings int
}

func checkCommand() *cobra.Command {
	k := check{}
	c := &cobra.Command{
		Use:   "check [flags] FILE...",
		Short: "Check files with policies",
		Long: `Check reads files with one policy or with policies by name, JSON or YAML, and
prints every fault with its file, line and column, and warnings about what is
allowed and seldom meant. The file - is standard input. The exit code is 0 if
there are no faults, 1 if there are (with --strict, also if there are warnings),
125 if a file cannot be read.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("check: name the files with policies, or - for standard input, as in: retry check policies.yaml")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return k.main(os.Stdout, args) },
	}
	c.Flags().SortFlags = false
	c.Flags().Var(value[time.Duration]{&k.deadline, parsePositive, "TIME"}, "deadline", "warn of policies that may take longer")
	c.Flags().StringSliceVar(&k.layers, "layers", nil, "of policies inside each other: `A,B,C`")
	c.Flags().BoolVar(&k.strict, "strict", false, "warnings are faults")
	c.Flags().BoolVarP(&k.quiet, "quiet", "q", false, "say nothing of files without faults")
	return c
}

func (k *check) main(w io.Writer, files []string) error {
	for _, file := range files {
		if err := k.file(w, file); err != nil {
			return err
		}
	}
	if k.faults > 0 || k.strict && k.warnings > 0 {
		return &exitCodeError{code: exitFaults}
	}
	return nil
}

func (k *check) file(w io.Writer, name string) error {
	f, err := readPolicies(name)
	name = shownName(name)
	var invalid *retrypolicies.InvalidError
	switch {
	case errors.As(err, &invalid):
		for _, fault := range invalid.Faults {
			fmt.Fprintln(w, fault)
		}
		k.faults += len(invalid.Faults)
		return nil
	case err != nil:
		return err
	}
	var found []retrypolicies.Fault
	warn := func(path []string, format string, args ...any) {
		line, column := f.where(path)
		found = append(found, retrypolicies.Fault{
			File: name, Line: line, Column: column, Path: path, Problem: "warning: " + fmt.Sprintf(format, args...),
		})
	}
	for _, policy := range f.policies.Names() {
		p, err := f.policies.Get(policy)
		if err != nil {
			return err
		}
		path, prefix := []string(nil), ""
		switch {
		case f.named && policy == retrypolicies.Default:
			path, prefix = []string{policy}, policy+": "
		case f.named:
			path, prefix = []string{"policies", policy}, policy+": "
		}
		for _, warning := range k.warningsOf(p) {
			warn(append(slices.Clip(path), warning.key), "%s%s", prefix, warning.text)
		}
	}
	if err := k.checkLayers(f, warn); err != nil {
		return fmt.Errorf("%s: --layers: %w", name, err)
	}
	sortFaults(found)
	for _, warning := range found {
		fmt.Fprintln(w, warning)
	}
	k.warnings += len(found)
	if !k.quiet && len(found) == 0 {
		fmt.Fprintf(w, "%s: ok\n", name)
	}
	return nil
}

// warning is about a key of a policy.
type warning struct{ key, text string }

// warningsOf returns what is allowed in a policy, and seldom meant.
func (k *check) warningsOf(p *retry.Policy) (warnings []warning) {
	warn := func(key, format string, args ...any) {
		warnings = append(warnings, warning{key, fmt.Sprintf(format, args...)})
	}
	attempts := attemptsOf(p)
	if attempts == 1 {
		return nil
	}
	shortest, longest := p.Bounds(1)
	switch {
	case longest == 0 && attempts > 2:
		warn("backoff", "there is no wait before the first retry")
	case shortest == longest && longest > 0:
		warn("jitter", "there is no jitter: clients that fail together come back together")
	}
	if attempts == retry.Unlimited && p.MaxElapsed <= 0 && p.Timeout <= 0 && p.ResetAfter <= 0 {
		warn("max_attempts", "unlimited attempts without max_elapsed or timeout: attach a Budget, or bound the context")
	}
	waits, total := worst(p, attempts)
	for _, limit := range []struct {
		key string
		d   time.Duration
	}{{"max_elapsed", p.MaxElapsed}, {"timeout", p.Timeout}} {
		if limit.d > 0 && attempts < retry.Unlimited && waits > limit.d {
			warn(limit.key, "the waits add up to as much as %v, longer than %s %v: not all %d attempts may be made",
				round(waits), limit.key, limit.d, attempts)
		}
	}
	if p.Timeout > 0 && p.AttemptTimeout >= p.Timeout {
		warn("attempt_timeout", "attempt_timeout %v is not below timeout %v: one slow attempt leaves no time for another",
			p.AttemptTimeout, p.Timeout)
	}
	if bounded := bound(p, total); k.deadline > 0 && bounded > k.deadline {
		warn("max_attempts", "may take %v, longer than the deadline %v", longTime(bounded), k.deadline)
	}
	return warnings
}

// worst returns the sum of the longest waits, and the same with the attempts if they
// are limited.
func worst(p *retry.Policy, attempts int) (waits, total time.Duration) {
	const enough = 10_000 // attempts: a policy with more waits for ever
	if attempts > enough {
		return forever, forever
	}
	for retry := 1; retry < attempts; retry++ {
		_, longest := p.Bounds(retry)
		waits = add(waits, longest)
	}
	total = waits
	for range attempts {
		total = add(total, max(p.AttemptTimeout, 0))
	}
	return waits, total
}

const forever = time.Duration(1<<63 - 1)

// bound returns how long a call takes at most, if its waits and attempts take total at
// most.
func bound(p *retry.Policy, total time.Duration) time.Duration {
	if p.MaxElapsed > 0 {
		total = min(total, add(p.MaxElapsed, max(p.AttemptTimeout, 0)))
	}
	if p.Timeout > 0 {
		total = min(total, p.Timeout)
	}
	return total
}

func longTime(d time.Duration) string {
	if d == forever {
		return "for ever"
	}
	return round(d).String()
}

// checkLayers warns of policies that call one another and multiply.
func (k *check) checkLayers(f *policyFile, warn func(path []string, format string, args ...any)) error {
	product, retrying := 1, 0
	var factors []string
	for _, name := range k.layers {
		p, err := f.policies.Get(name)
		if err != nil {
			return err
		}
		attempts := attemptsOf(p)
		if attempts > 1 {
			retrying++
		}
		if factors = append(factors, attemptsText(attempts)); product < retry.Unlimited/attempts {
			product *= attempts
		} else {
			product = retry.Unlimited
		}
	}
	if retrying > 1 {
		warn([]string{"policies", k.layers[0]}, "%s retry inside each other: %s = %s attempts for one call; retry in one layer",
			strings.Join(k.layers, ", "), strings.Join(factors, " × "), attemptsText(product))
	}
	return nil
}

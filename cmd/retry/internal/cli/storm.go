package cli

import (
	"flag"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
)

func stormCommand() *cobra.Command {
	o := compare.New()
	c := &cobra.Command{
		Use:   "storm [flags] [FILE [NAME]]",
		Short: "Simulate what a policy does to a service in trouble",
		Long: `Storm simulates clients of a service with a queue, a fault in it, and a policy with
its budget, beside no retries and beside three attempts without a budget. The policy
is that of a file, JSON or YAML, or - for standard input; without one it is
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

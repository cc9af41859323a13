// Package cli is the command retry.
package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command with its arguments, and returns the exit code.
func Main(args []string) int {
	return amongOrphans(func() int { return execute(args) })
}

func execute(args []string) int {
	root := Command()
	checkShell(root)
	root.SetArgs(args)
	err := root.Execute()
	var exit *exitCodeError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintf(os.Stderr, "retry: %s\nretry --help says more.\n", message(err))
		return exitUsage
	case exit.message != "":
		fmt.Fprintln(os.Stderr, "retry:", plain(exit.message))
	}
	return exit.code
}

const long = `Retry runs a command until it succeeds, as often and with such waits as a policy
says. Its standard input is read again for every run, standard output is the
command's own, signals are passed on, and retry exits with the code of the last
run.`

const codes = `Exit code: the code of the last run; 123 --until or --until-fails did not hold,
124 out of time, 125 retry failed, 126, 127 it cannot be run, 128+n signal n.`

// helpText is shorter than the usual one, and fits a screen.
const helpText = `Usage: retry [flags] -- command [arguments]    run it until it succeeds
       retry plan|why|check|storm|playground|completion --help
{{usages .LocalFlags | trimTrailingWhitespaces}}
` + codes + "\n"

// Command returns the root command.
func Command() *cobra.Command {
	r := runner{}
	root := &cobra.Command{
		Use:     "retry [flags] -- command [arguments]",
		Short:   "Run a command until it succeeds",
		Long:    long + "\n\n" + codes,
		Version: version(),
		Example: `  retry -- curl -fsS https://example.com
  retry -n 10 -b constant:5s --until 'test -f ready' -- make ready
  retry -n unlimited -T 5m -b 1s --until-fails -- pgrep -x backup
  retry -n unlimited -T 10m --on-exit 75,111 -- deliver < mail
  retry -p policies.yaml --policy-name upload -- rsync -a . host:backup`,
		Args:          commandAfterDashes,
		SilenceErrors: true,
		// Of names that are likely to be mistyped.
		SuggestionsMinimumDistance: 2,

		SilenceUsage: true,
		RunE:         func(_ *cobra.Command, args []string) error { return r.main(args) },
	}
	cobra.AddTemplateFunc("usages", usages)
	root.SetHelpTemplate(helpText)
	root.Flags().SortFlags = false
	r.policy.register(root.Flags())
	r.register(root.Flags())
	root.Flags().BoolP("help", "h", false, "print this")
	root.Flags().Bool("version", false, "print the version")
	for _, flag := range []string{"help", "version"} {
		root.Flags().Lookup(flag).Hidden = true // everybody knows them, and the screen is full
	}
	_ = root.MarkFlagFilename("policy", "yaml", "yml", "json")
	for flag, values := range map[string][]string{
		"profile": profileNames(),
		"log":     {logText, logJSON},
		"jitter":  {"full", "equal", "none", "10%"},
		"backoff": {"exponential:2s", "linear:1s", "fibonacci:1s", "constant:5s", "1s,5s,30s"},
	} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, sub := range []*cobra.Command{planCommand(), whyCommand(), checkCommand(), stormCommand(), playgroundCommand()} {
		sub.SetHelpTemplate(subHelp)
		root.AddCommand(sub)
	}
	return root
}

// subHelp is the help of a subcommand.
const subHelp = `{{.Long}}

Usage: {{.UseLine}}

{{usages .LocalFlags | trimTrailingWhitespaces}}
`

// usages returns what FlagUsages does, without the [=true|false] after every switch. It
// would widen the column of the names, and the help would not fit a screen.
func usages(flags *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(flag *pflag.Flag) {
		shorter := *flag
		if flag.Value.Type() == "bool" {
			shorter.Value = toggle{flag.Value}
		}
		shown.AddFlag(&shorter)
	})
	return shown.FlagUsages()
}

// toggle is the value of a switch whose usage is its name.
type toggle struct{ pflag.Value }

// Type implements [pflag.Value]. The usage of a flag of this type has no values.
func (toggle) Type() string { return "boolfunc" }

// checkShell lets the completion command refuse a shell that it does not know. By itself
// it prints its help then, as if all were well.
func checkShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // there is none
	}
	var shells []string
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
	}
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(_ *cobra.Command, args []string) error {
		return fmt.Errorf("%s: must be one of %s", strings.Join(append([]string{"completion"}, args...), " "), strings.Join(shells, ", "))
	}
	completion.SetHelpTemplate(subHelp)
}

// commandAfterDashes asks for "--", so that no command is taken for a subcommand, nor
// its flags for those of retry.
func commandAfterDashes(c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case len(args) == 0:
		return errors.New("no command: write it after --, as in: retry -- true")
	case dash != 0:
		hint := ""
		if names := c.SuggestionsFor(args[0]); len(names) > 0 {
			hint = "; or did you mean: retry " + names[0]
		}
		return fmt.Errorf("%q: write the command after --, as in: retry -- %s%s", args[0], args[0], hint)
	}
	return nil
}

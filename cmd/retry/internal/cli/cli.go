// Package cli is the command retry.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command with its arguments, and returns the exit code.
func Main(args []string) int {
	return amongOrphans(func() int { return execute(args) })
}

func execute(args []string) int {
	root := Command()
	addCompletion(root)
	if len(args) > 0 && args[0] == commandOffset {
		fmt.Println(offset(root, args[1:]))
		return 0
	}
	root.SetArgs(asCommand(root, args))
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
	if exit.signal != nil {
		dieBy(exit.signal)
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
const helpText = `Usage: retry [flags] [--] command [arguments]    run it until it succeeds
       retry plan|why|check|storm|playground|completion --help
{{usages .LocalFlags | trimTrailingWhitespaces}}
Exit code: of the last run; 123 no --until, 124 time, 125 retry, 128+n signal n
`

// Command returns the root command.
func Command() *cobra.Command {
	r := runner{}
	root := &cobra.Command{
		Use:     "retry [flags] [--] command [arguments]",
		Short:   "Run a command until it succeeds",
		Long:    long + "\n\n" + codes,
		Version: version(),
		Example: `  retry curl -fsS https://example.com
  retry bash -o pipefail -c 'pg_dump shop | gzip > shop.part' && mv shop.part shop.gz
  retry -n 10 -b constant:5s --until 'test -f ready' make ready
  retry -n unlimited -T 5m -b 1s --until-fails --final-exit 2,3 pgrep -x backup
  retry -n unlimited -T 10m --on-exit 75,111 deliver < mail
  retry -p policies.yaml --policy-name upload rsync -a . host:backup`,
		Args:          aCommand,
		SilenceErrors: true,
		// Of names that are likely to be mistyped.
		SuggestionsMinimumDistance: 2,

		SilenceUsage: true,
		RunE:         func(_ *cobra.Command, args []string) error { return r.main(args) },

		ValidArgsFunction: programs,
	}
	root.SetFlagErrorFunc(foreignFlag)
	r.advice = func(err error) string { return advice(root, r.args, err) }
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

// aCommand asks for a command.
func aCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no command: write it after the flags, as in: retry -n 5 curl -fsS https://example.com")
	}
	if args[0] == "" {
		return errors.New("the command is empty: is a variable not set?")
	}
	return nil
}

// version returns the version of the module, as "go install" knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

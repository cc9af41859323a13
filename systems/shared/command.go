package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Program is a program of several commands: runs serve -dsn runs.db. Each command has the
// flags that it uses and no others, so that no flag is ignored.
type Program struct {
	Name     string
	About    string // what the program does, in a sentence
	Commands []Command
}

// Command is one of the commands of a [Program].
type Command struct {
	Name  string // a word, or several: "state retry"
	About string // what it does, in a sentence

	// Flags defines the flags, and returns what is done when they are parsed.
	Flags func(flags *flag.FlagSet) Action
}

// Action is what a command does. It writes its results to out.
type Action func(ctx context.Context, out io.Writer) error

// Run runs the command that args begin with. Arguments that no command has a use for are an
// error for [Main], and so is a program without a command. -h explains the program, or the
// command that it comes after.
func (p *Program) Run(ctx context.Context, args []string, out io.Writer) error {
	var help strings.Builder
	fmt.Fprintf(&help, "%s %s\n\n", p.Name, p.About)
	for _, c := range p.Commands {
		words := strings.Fields(c.Name)
		if n := len(words); len(args) >= n && slices.Equal(args[:n], words) {
			return c.run(ctx, p.Name, args[n:], out)
		}
		fmt.Fprintf(&help, "  %s %-12s %s\n", p.Name, c.Name, c.About)
	}
	fmt.Fprintf(&help, "\n%s COMMAND -h lists the flags of a command.\n", p.Name)
	problem := "a command is missing"
	if len(args) > 0 {
		problem = fmt.Sprintf("%q is no command", args[0])
		if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
			_, err := fmt.Fprint(out, help.String())
			return err
		}
	}
	return Usage(fmt.Errorf("usage: %s: %s\n%s", p.Name, problem, help.String()))
}

func (c *Command) run(ctx context.Context, program string, args []string, out io.Writer) error {
	name := program + " " + c.Name
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it is told in our words
	action := c.Flags(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "%s %s\n\n", name, c.About)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument: %s", flags.Arg(0))
	}
	if err != nil {
		return Usage(fmt.Errorf("usage: %s: %w\n%s -h lists the flags", name, err, name))
	}
	return action(ctx, out)
}

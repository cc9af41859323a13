package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asCommand puts a "--" before the first word that is no flag: as for timeout and nice, the
// command begins there. A subcommand is the first of all words, so that no program with
// such a name is hidden behind a flag or a "--".
func asCommand(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	switch args[0] {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		// The last word is being completed. If it is the first word of all, or of the
		// command, cobra offers both.
		words := args[1:]
		if at := commandAt(root, words); at < len(words)-1 && words[at] != "--" {
			return slices.Concat(args[:1], words[:at], []string{"--"}, words[at:])
		}
		return args
	}
	if at := commandAt(root, args); at < len(args) && args[at] != "--" {
		return slices.Concat(args[:at], []string{"--"}, args[at:])
	}
	return args
}

// commandAt returns where the command begins, or the "--" before it: behind the last of
// the words if they have none. With a subcommand they have none.
func commandAt(root *cobra.Command, words []string) int {
	if len(words) > 0 && isSubcommand(root, words[0]) {
		return len(words)
	}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--", word == "-", !strings.HasPrefix(word, "-"):
			return i
		case takesNext(root.Flags(), word):
			i++
		}
	}
	return len(words)
}

func isSubcommand(root *cobra.Command, word string) bool {
	return word == "help" || slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
}

// takesNext reports whether the value of the flag, or of the last of several short flags, is
// the next word.
func takesNext(flags *pflag.FlagSet, word string) bool {
	if name, long := strings.CutPrefix(word, "--"); long {
		flag := flags.Lookup(name) // with "=value" there is none
		return flag != nil && flag.NoOptDefVal == ""
	}
	for i := 1; i < len(word); i++ {
		flag := flags.ShorthandLookup(word[i : i+1])
		if flag == nil {
			return false
		}
		if flag.NoOptDefVal == "" {
			return i == len(word)-1 // or else the rest of the word is the value
		}
	}
	return false
}

// commandOffset is the hidden subcommand of the completion scripts: it prints which of the
// words is the command, counted from 1, if the last word belongs to its arguments.
const commandOffset = "__command"

// offset returns the line to print.
func offset(root *cobra.Command, words []string) string {
	words, joined := join(words)
	at := commandAt(root, words)
	if at < len(words) && words[at] == "--" {
		at++
	}
	if at >= len(words)-1 {
		return ""
	}
	return strconv.Itoa(1 + at + joined(at))
}

// join undoes what bash does to words: it makes three of "constant:5s". joined returns
// how many words before the word with a number are part of another one.
func join(words []string) (whole []string, joined func(at int) int) {
	var before []int
	parts, open := 0, false
	for i, word := range words {
		glue := word != "" && strings.Trim(word, ":=@") == ""
		if (glue || open) && i > 0 {
			whole[len(whole)-1] += word
			parts++
		} else {
			whole, before = append(whole, word), append(before, parts)
		}
		open = glue
	}
	return whole, func(at int) int { return before[at] }
}

// programs completes the name of a command.
func programs(_ *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || start == "" || strings.ContainsRune(start, filepath.Separator) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, file := range files {
			name := filepath.Base(file)
			if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && strings.HasPrefix(name, start) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// advice is what may help if the command is not found.
func advice(root *cobra.Command, args []string, err error) string {
	if info, statErr := os.Stat(args[0]); isStart(err) && statErr == nil && info.IsDir() {
		return args[0] + " is a directory"
	}
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	word := args[0]
	if isSubcommand(root, word) {
		return "the subcommand must be the first word: retry " + word
	}
	name, _, assigns := strings.Cut(word, "=")
	switch similar := root.SuggestionsFor(word); {
	case assigns && name != "" && strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "":
		return "variables are set by env: retry env " + word + " …"
	case len(args) == 1 && strings.ContainsAny(word, " \t\n|&;<>()$`\\\"'*?"):
		return "a line for a shell needs one: retry " + shellOf(word)
	case slices.Contains(strings.Fields(shellWords), word):
		return "it is a part of the shell: retry " + shellOf(strings.Join(args, " "))
	case len(similar) > 0:
		return "or did you mean: retry " + similar[0]
	default:
		return ""
	}
}

// shellWords are what people run, and what is no program of its own.
const shellWords = ". ! [[ alias bg cd command declare eval exec exit export fg for function hash if jobs let local " +
	"read readonly return set shift source trap type typeset ulimit umask unset until wait while {"

// quoted quotes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// shellOf returns a command that has a shell run a line, and fails if a part of a pipe does.
func shellOf(line string) string {
	if hasPipe(line) {
		return "bash -o pipefail -c " + quoted(line)
	}
	return "sh -c " + quoted(line)
}

// foreign has flags of other programs that run a command again, and what is for the same here.
var foreign = map[string]string{
	"retry max-retries retries":                     "-n counts the first run too: -n 4 is 3 retries",
	"times tries max-attempts max-tries count a r":  "-n N is the number of runs",
	"delay d sleep s interval i wait w retry-delay": "-b 5s waits 5 seconds each time",
	"v verbose":               "each retry is told without a flag; --log json tells more",
	"V":                       "--version prints the version",
	"max-time retry-max-time": "-t 10s limits each run, -T 5m all of them with their waits",
	"task-time":               "-t 10s limits each run",
	"k":                       "--kill-after TIME is from SIGTERM to SIGKILL",
	"while u":                 "--on-exit and --final-exit say which exit codes are run again",
	"invert":                  "--until-fails runs until the command fails",
	"retry-all-errors retry-connrefused preserve-status": "it needs no flag",
	"forever infinite unlimited":                         "-n unlimited runs for ever",
}

// foreignFlag adds to the error of an unknown flag what is for the same here.
func foreignFlag(_ *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		for names, hint := range foreign {
			if slices.Contains(strings.Fields(names), unknown.GetSpecifiedName()) {
				return fmt.Errorf("%w; %s", err, hint)
			}
		}
	}
	return err
}

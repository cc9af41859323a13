package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addCompletion adds the command that prints completions. It refuses a shell that it does not
// know: by itself it prints its help then, as if all were well.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // there is none
	}
	var shells []string
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
		if script := scripts[shell.Name()]; script.generate != nil {
			shell.RunE = func(c *cobra.Command, _ []string) error { return script.print(c) }
		}
	}
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(_ *cobra.Command, args []string) error {
		return fmt.Errorf("%s: must be one of %s", strings.Join(append([]string{"completion"}, args...), " "), strings.Join(shells, ", "))
	}
	completion.SetHelpTemplate(subHelp)
}

// script is a completion for a shell. What follows the flags of retry is a command, and the
// shell knows how to complete that one.
type script struct {
	generate func(root *cobra.Command, to *bytes.Buffer, describe bool) error
	before   string // a line of it
	add      string // what is added behind this line, or at the end
}

func (s script) print(c *cobra.Command) error {
	var text bytes.Buffer
	silent, err := c.Flags().GetBool("no-descriptions")
	if err == nil {
		err = s.generate(c.Root(), &text, !silent)
	}
	if err != nil {
		return err
	}
	start, end, found := strings.Cut(text.String(), s.before)
	if !found {
		return fmt.Errorf("completion %s: the script has no %q", c.Name(), s.before)
	}
	if s.before == "" {
		start, end = end, ""
	}
	_, err = fmt.Fprint(c.OutOrStdout(), start, s.before, s.add, end)
	return err
}

var scripts = map[string]script{
	"bash": {
		generate: func(root *cobra.Command, to *bytes.Buffer, describe bool) error {
			return root.GenBashCompletionV2(to, describe)
		},
		before: "\n__start_retry()\n{\n",
		add: `    # What follows the flags is a command with a completion of its own.
    local at
    at=$("${COMP_WORDS[0]}" ` + commandOffset + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n $at ]] && declare -F _command_offset >/dev/null; then
        _command_offset "$at"
        return
    fi

`,
	},
	"zsh": {
		generate: func(root *cobra.Command, to *bytes.Buffer, describe bool) error {
			if describe {
				return root.GenZshCompletion(to)
			}
			return root.GenZshCompletionNoDesc(to)
		},
		before: "\n_retry()\n{\n",
		add: `    # What follows the flags is a command with a completion of its own.
    local at
    at=$("${(Q)words[1]}" ` + commandOffset + ` "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if [[ -n $at ]]; then
        shift $at words
        (( CURRENT -= at ))
        _normal
        return
    fi

`,
	},
	"fish": {
		generate: func(root *cobra.Command, to *bytes.Buffer, describe bool) error {
			return root.GenFishCompletion(to, describe)
		},
		add: `
# What follows the flags is a command with a completion of its own.
function __retry_command
    set -l words (commandline -opc) (commandline -ct)
    set -l at ($words[1] ` + commandOffset + ` $words[2..-1] 2>/dev/null)
    test -n "$at"; or return
    set -l first (math $at + 1)
    complete -C (string join ' ' -- (string escape -- $words[$first..-2]) $words[-1])
end
complete -c retry -f -a '(__retry_command)'
`,
	},
}

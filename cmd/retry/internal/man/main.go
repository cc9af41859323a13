// Man writes the manual pages of the command into a directory.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1], changelog); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// changelog has the date of the last release, seen from where write is called.
const changelog = "../../CHANGELOG.md"

var heading = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$`)

// write writes a page for the command and each of its subcommands.
func write(dir, changelog string) error {
	changes, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	version, date := "", "unreleased"
	if m := heading.FindSubmatch(changes); m != nil {
		version, date = " "+string(m[1]), string(m[2])
	}
	root := cli.Command()
	for _, c := range append(root.Commands(), root) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		p := &page{}
		p.line(`.TH "%s" "1" "%s" "retry%s" "retry"`, strings.ToUpper(name), date, version)
		p.command(name, c)
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(p.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// page is a manual page, in the language of man(7).
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) command(name string, c *cobra.Command) {
	p.line(".SH NAME\n%s \\- %s", escape(name), escape(c.Short))
	p.line(".SH SYNOPSIS\n.B %s", escape(c.UseLine()))
	p.line(".SH DESCRIPTION")
	about, _, _ := strings.Cut(c.Long, "\n\n")
	p.text(about)
	p.line(".SH OPTIONS")
	flags := *c.LocalFlags()
	flags.SortFlags = false
	flags.VisitAll(p.option)
	for _, section := range cli.Manual[name] {
		p.line(".SH %s", strings.ToUpper(section.Title))
		p.text(section.Text)
	}
	if c.Example != "" {
		p.line(".SH EXAMPLES\n.EX\n%s\n.EE", escape(c.Example))
	}
	p.line(".SH SEE ALSO")
	var also []string
	if c.HasParent() {
		c = c.Parent()
		also = append(also, `\fBretry\fP(1)`)
	}
	for _, sub := range c.Commands() {
		if other := "retry-" + sub.Name(); other != name {
			also = append(also, `\fB`+escape(other)+`\fP(1)`)
		}
	}
	p.line("%s", strings.Join(also, ",\n"))
	p.line(`.PP` + "\n" + `https://github.com/seed\-5ff3c98e/retry/blob/main/docs/command.md`)
}

func (p *page) option(flag *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(flag)
	names := `\fB` + escape("--"+flag.Name) + `\fP`
	if flag.Shorthand != "" {
		names = `\fB` + escape("-"+flag.Shorthand) + `\fP, ` + names
	}
	if value != "" && flag.NoOptDefVal == "" {
		names += ` \fI` + escape(strings.ToUpper(value)) + `\fP`
	}
	if def := flag.DefValue; def != "" && def != "false" && def != "[]" && !strings.Contains(usage, "default") {
		usage += "; default " + def
	}
	p.line(".TP\n%s\n%s", names, escape(usage))
}

// text writes paragraphs. One with "term: " at its beginning is an item, and lines that are
// indented are an example.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		term, rest, isItem := strings.Cut(paragraph, ":\t")
		switch {
		case isItem:
			p.line(".TP\n\\fB%s\\fP\n%s", escape(term), escape(strings.TrimSpace(rest)))
		case strings.HasPrefix(paragraph, "  "):
			p.line(".PP\n.EX\n%s\n.EE", escape(paragraph))
		case i > 0:
			p.line(".PP\n%s", escape(paragraph))
		default:
			p.line("%s", escape(paragraph))
		}
	}
}

// escape escapes what man(7) would read as a request, or would change.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// table says how many of the judged findings are true, how many mistakes in loops that were read
// are found, and how many known ones.
func (e *evidence) table() string {
	var b strings.Builder
	b.WriteString("# Findings in public modules\n\n" +
		"The checks were made with the modules of the set *made*. The list of the others stood before the checks ran over them. " +
		"In the modules of the set *read*, loops were drawn by lot and read by hand before that.\n")
	set := sets(e.modules)
	b.WriteString("\n## Precision on code that nobody had looked at\n\n" +
		"Of all findings, also those that led to a better check: what was false in one round was mended before the next.\n\n" + sums(e.modules, e.judged))
	for _, r := range rounds {
		if rows := in(e.judged, func(j []string) bool { return r.has(set[j[0]+"@"+j[1]]) }); len(rows) > 0 {
			precision(&b, "the modules of the "+r.name+" round", e.findings, rows, true)
		}
	}
	precision(&b, "the code that the checks were made with", e.findings, in(e.judged, func(r []string) bool { return set[r[0]+"@"+r[1]] == "made" }), false)
	readLoops(&b, e.findings, e.loops)
	recall(&b, e.modules, e.findings)
	fmt.Fprintf(&b, "\nOf the %d modules, %d were looked at with the checks as they are, version %s. modules.tsv has the version of each.\n",
		len(e.modules), len(e.modules)-len(outdated(e.modules, e.findings, e.version)), e.version)
	return b.String()
}

// round is a list of modules that stood before the checks ran over them. What was false in a round was
// mended before the next one, so that only the last says how good the checks are.
type round struct {
	name string
	sets []string
}

var rounds = []round{
	{"first", []string{"unseen", "read", "later"}},
	{"second", []string{"second"}},
	{"third", []string{"third"}},
	{"fourth", []string{"fourth"}},
	{"fifth", []string{"fifth"}},
	{"sixth", []string{"sixth"}},
	{"seventh", []string{"seventh"}},
	{"eighth", []string{"eighth"}},
	{"ninth", []string{"ninth"}},
}

func (r round) has(set string) bool { return slices.Contains(r.sets, set) }

// sets returns the set of each module, by its path and version.
func sets(modules [][]string) map[string]string {
	set := map[string]string{}
	for _, m := range modules {
		set[m[0]+"@"+m[1]] = m[2]
	}
	return set
}

// sums counts the modules and the findings of each round.
func sums(modules, judged [][]string) string {
	set := sets(modules)
	var b strings.Builder
	b.WriteString("| round | modules | findings | true | precision |\n|---|---:|---:|---:|---:|\n")
	for _, r := range rounds {
		all := in(judged, func(j []string) bool { return r.has(set[j[0]+"@"+j[1]]) })
		if len(all) == 0 {
			continue
		}
		good := len(in(all, func(j []string) bool { return j[4] == "true" }))
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", r.name, len(in(modules, func(m []string) bool { return r.has(m[2]) })), len(all), good, percent(good, len(all)))
	}
	return b.String()
}

func percent(good, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(good)/float64(of)) }

// in returns the rows for which keep says so.
func in(rows [][]string, keep func([]string) bool) [][]string {
	return slices.DeleteFunc(slices.Clone(rows), func(r []string) bool { return !keep(r) })
}

// precision counts judged findings, and the files that they are in: one generator may have made the
// same mistake fifty times. A file with a false finding is false. Where the checks were new to the
// code, what they do not report any more counts too.
func precision(b *strings.Builder, code string, findings, judged [][]string, gone bool) {
	fmt.Fprintf(b, "\n## Precision on %s\n\n", code)
	if !gone {
		b.WriteString("Of the judged findings that are still reported. What was false and led to a better check is not.\n\n")
	}
	b.WriteString("| check | true | false | precision | by file |\n|---|---:|---:|---:|---:|\n")
	all := &count{}
	for _, a := range checks.Default() {
		one := &count{}
		for _, j := range judged {
			reported := gone || slices.ContainsFunc(findings, func(f []string) bool { return slices.Equal(f[:4], j[:4]) })
			if reported && j[2] == a.Name {
				one.add(j)
				all.add(j)
			}
		}
		one.write(b, a.Name)
	}
	all.write(b, "all")
}

// count counts judged findings.
type count struct {
	good, bad int
	files     map[string]bool // whether all findings of a check in it are true
}

func (c *count) add(judged []string) {
	file, _, _ := strings.Cut(judged[3], ":")
	key := strings.Join(append(slices.Clone(judged[:3]), file), "\t")
	if c.files == nil {
		c.files = map[string]bool{}
	}
	isTrue := judged[4] == "true"
	if before, seen := c.files[key]; !seen || before {
		c.files[key] = isTrue
	}
	if isTrue {
		c.good++
	} else {
		c.bad++
	}
}

func (c *count) write(b *strings.Builder, name string) {
	if len(c.files) == 0 {
		return
	}
	goodFiles := 0
	for _, good := range c.files {
		if good {
			goodFiles++
		}
	}
	fmt.Fprintf(b, "| %s | %d | %d | %s | %s |\n", name, c.good, c.bad, percent(c.good, c.good+c.bad), percent(goodFiles, len(c.files)))
}

// readLoops lists the mistakes in loops that were read by hand, and counts what is found.
func readLoops(b *strings.Builder, findings, loops [][]string) {
	if len(loops) == 0 {
		return
	}
	b.WriteString("\n## Loops that were read by hand\n\nDrawn by lot from the loops with a wait or a word for retries. " +
		"A loop without a mistake is not listed; loops.tsv has all.\n\n| module | loop | mistake | found |\n|---|---|---|---|\n")
	for _, l := range loops {
		if l[3] != "" {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", l[0], l[2], l[3], map[bool]string{true: "yes", false: "no"}[reported(findings, l)[l[3]]])
		}
	}
	b.WriteString("\n" + loopSums(findings, loops) + "\n")
}

// loopSums says how many of the mistakes in loops are found.
func loopSums(findings, loops [][]string) string {
	mistakes, found, clean, quiet := 0, 0, 0, 0
	for _, l := range loops {
		checks := reported(findings, l)
		if l[3] == "" {
			clean++
			if len(checks) == 0 {
				quiet++
			}
			continue
		}
		mistakes++
		if checks[l[3]] {
			found++
		}
	}
	return fmt.Sprintf("%d of %d mistakes are found. In %d of the %d loops without one, nothing is reported.", found, mistakes, quiet, clean)
}

// reported returns the checks that report something in a loop.
func reported(findings [][]string, loop []string) map[string]bool {
	checks := map[string]bool{}
	for _, f := range findings {
		if f[0] == loop[0] && f[1] == loop[1] && within(f[3], loop[2]) {
			checks[f[2]] = true
		}
	}
	return checks
}

// within reports whether file:line is in file:first-last.
func within(place, loop string) bool {
	file, line, _ := strings.Cut(place, ":")
	in, lines, _ := strings.Cut(loop, ":")
	var n, first, last int
	if _, err := fmt.Sscanf(line+" "+lines, "%d %d-%d", &n, &first, &last); err != nil {
		return false
	}
	return file == in && first <= n && n <= last
}

// recall lists the known mistakes: a column of modules.tsv has the check, the file and
// the reference of each.
func recall(b *strings.Builder, modules, findings [][]string) {
	b.WriteString("\n## Known mistakes\n\n| mistake | check | file | found |\n|---|---|---|---|\n")
	known, found := 0, 0
	for _, m := range modules {
		for entry := range strings.SplitSeq(m[3], ";") {
			part := strings.Fields(entry)
			if len(part) != 3 {
				continue
			}
			known++
			hit := slices.ContainsFunc(findings, func(f []string) bool {
				return f[0] == m[0] && f[1] == m[1] && f[2] == part[0] && strings.HasPrefix(f[3], part[1]+":")
			})
			answer := "no"
			if hit {
				found++
				answer = "yes"
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", part[2], part[0], part[1], answer)
		}
	}
	fmt.Fprintf(b, "\n%d of %d.\n", found, known)
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// table writes what was found in each module, how many of the judged findings of each check are
// true, and which of the known mistakes were found.
func table(modules, findings, judged [][]string) []byte {
	var b strings.Builder
	b.WriteString("# Findings in public modules\n\nMade by `go run ./internal/evidence` in cmd/retryvet. Do not edit.\n\n")
	b.WriteString("| module | version | findings | |\n|---|---|---:|---|\n")
	for _, m := range modules {
		counts, note, n := map[string]int{}, "not run", 0
		for _, f := range findings {
			if f[0] != m[0] || f[1] != m[1] {
				continue
			}
			if f[2] == "" {
				note = f[4]
				continue
			}
			counts[f[2]]++
			n++
		}
		var parts []string
		for _, a := range checks.Default() {
			if c := counts[a.Name]; c > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", a.Name, c))
			}
		}
		parts = append(parts, note)
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", m[0], m[1], n, strings.Join(parts, ", "))
	}
	precision(&b, findings, judged)
	recall(&b, modules, findings)
	return []byte(b.String())
}

// precision counts the judged findings that are still reported, and the files that they are in:
// one generator may have made the same mistake fifty times. A file with a false finding is false.
func precision(b *strings.Builder, findings, judged [][]string) {
	b.WriteString("\n## Precision\n\nOf the findings in judged.tsv that are still reported. What was judged false and led to a better " +
		"check is not: so this says how good the checks are on the code that they were made with.\n\n" +
		"| check | true | false | precision | by file |\n|---|---:|---:|---:|---:|\n")
	all := &count{}
	for _, a := range checks.Default() {
		one := &count{}
		for _, j := range judged {
			reported := slices.ContainsFunc(findings, func(f []string) bool { return slices.Equal(f[:4], j[:4]) })
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
	percent := func(good, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(good)/float64(of)) }
	fmt.Fprintf(b, "| %s | %d | %d | %s | %s |\n", name, c.good, c.bad, percent(c.good, c.good+c.bad), percent(goodFiles, len(c.files)))
}

// recall lists the known mistakes: the last column of modules.tsv has the check, the file and
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

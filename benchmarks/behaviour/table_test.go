package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
)

// mark says how a promise is kept.
type mark string

const (
	kept   mark = "✓"
	partly mark = "~"
	broken mark = "✗"
	absent mark = "–"
)

// cell is a mark and what was seen.
type cell struct {
	mark mark
	seen string
}

func keptIf(ok bool, format string, args ...any) cell {
	return cell{choose(ok, kept, broken), fmt.Sprintf(format, args...)}
}

func choose[T any](ok bool, yes, no T) T {
	if ok {
		return yes
	}
	return no
}

// promise is a row: what is promised to users of C, how it is asked for, and the
// probe that asks.
type promise[C any] struct {
	title string
	how   string
	probe func(tester, C) cell
}

// row is a promise with its cells, in the order of the columns.
type row struct {
	title, how string
	cells      []cell
}

// group is a table.
type group struct {
	title string
	intro string
	peers []string
	rows  []row
}

// ask runs every probe on every contestant.
func ask[C any](t tester, title, intro string, contestants []C, name func(C) string, promises []promise[C]) group {
	t.Helper()
	g := group{title: title, intro: intro}
	for _, c := range contestants {
		g.peers = append(g.peers, name(c))
	}
	for _, p := range promises {
		r := row{title: p.title, how: p.how}
		for _, c := range contestants {
			r.cells = append(r.cells, p.probe(t, c))
		}
		g.rows = append(g.rows, r)
	}
	return g
}

// write prints the table, and what was seen where a promise is not kept.
func (g *group) write(b *strings.Builder, letter string) {
	fmt.Fprintf(b, "## %s. %s\n\n%s\n\n", letter, g.title, g.intro)
	fmt.Fprintf(b, "| | Promise | %s |\n", strings.Join(g.peers, " | "))
	fmt.Fprintf(b, "|---|---%s|\n", strings.Repeat("|:-:", len(g.peers)))
	for i, r := range g.rows {
		fmt.Fprintf(b, "| %s%d | %s", letter, i+1, r.title)
		for _, c := range r.cells {
			fmt.Fprintf(b, " | %s", c.mark)
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n<details><summary>What was seen</summary>\n\n")
	g.seen(b, letter, partly, broken)
	b.WriteString("</details>\n\n")
}

// seen prints what was seen in the cells with these marks, equal ones together.
func (g *group) seen(b *strings.Builder, letter string, marks ...mark) {
	for i, r := range g.rows {
		if slices.ContainsFunc(r.cells, func(c cell) bool { return slices.Contains(marks, c.mark) }) {
			fmt.Fprintf(b, "**%s%d.** %s\n\n", letter, i+1, r.how)
			r.seen(b, g.peers, marks)
			b.WriteString("\n")
		}
	}
}

func (r *row) seen(b *strings.Builder, peers []string, marks []mark) {
	for _, m := range marks {
		var seen []string
		by := map[string][]string{}
		for i, c := range r.cells {
			if c.mark != m {
				continue
			}
			if by[c.seen] == nil {
				seen = append(seen, c.seen)
			}
			by[c.seen] = append(by[c.seen], peers[i])
		}
		for _, s := range seen {
			fmt.Fprintf(b, "- %s %s: %s\n", m, strings.Join(by[s], ", "), s)
		}
	}
}

// summary counts the marks of every contestant.
func summary(b *strings.Builder, groups []group) {
	var names []string
	counts := map[string]map[mark]int{}
	for _, g := range groups {
		for i, name := range g.peers {
			if counts[name] == nil {
				names = append(names, name)
				counts[name] = map[mark]int{}
			}
			for _, r := range g.rows {
				counts[name][r.cells[i].mark]++
			}
		}
	}
	b.WriteString("| | ✓ | ~ | ✗ | – |\n|---|--:|--:|--:|--:|\n")
	for _, name := range names {
		c := counts[name]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", name, c[kept], c[partly], c[broken], c[absent])
	}
}

// better lists the rows in which somebody keeps what the first contestant does
// not.
func better(b *strings.Builder, groups []group) {
	for g, group := range groups {
		for i, r := range group.rows {
			if r.cells[0].mark == kept {
				continue
			}
			var peers []string
			for j, c := range r.cells {
				if c.mark == kept {
					peers = append(peers, group.peers[j])
				}
			}
			if len(peers) > 0 {
				fmt.Fprintf(b, "- %s%d %s: %s. Ours: %s %s.\n", letter(g), i+1, r.title,
					strings.Join(slices.Compact(peers), ", "), r.cells[0].mark, r.cells[0].seen)
			}
		}
	}
}

func letter(i int) string { return string(rune('A' + i)) }

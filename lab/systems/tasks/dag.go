package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

//go:embed dag.html
var dagHTML string

var dagPage = template.Must(template.New("dag").Parse(dagHTML))

// The places of nodes on the page, and of the lines between them.
const (
	nodeWidth, nodeHeight = 280, 106
	gapWidth, gapHeight   = 70, 24
	columnWidth           = nodeWidth + gapWidth
	laneHeight            = 14
)

// node is a task on the page.
type node struct {
	task

	X, Y   int
	NextIn time.Duration // if there is a NextRetryAt
}

// page is what the page shows.
type page struct {
	Batch                                string
	Reload                               int // in so many seconds
	Nodes                                []*node
	Lines                                []string // as SVG has paths
	Width, Height, NodeWidth, NodeHeight int
}

const lastBatch = "SELECT coalesce((SELECT CAST(batch_id AS text) FROM task ORDER BY created_at DESC LIMIT 1), 'none')"

// dag is the page with the graph of a batch, of the last one if none is named.
func (s *service) dag(ctx context.Context, batch string) (*page, error) {
	if batch == "" {
		if err := s.db.QueryRowContext(ctx, lastBatch).Scan(&batch); err != nil || batch == "none" {
			return &page{Batch: batch, Reload: 1}, err
		}
	}
	tasks, err := s.list(ctx, url.Values{"batch": {batch}})
	links, linksErr := shared.Query(ctx, s.db, func(rows *sql.Rows) (l [2]string, err error) {
		return l, rows.Scan(&l[0], &l[1])
	}, `SELECT parent_id, child_id FROM task_link
		WHERE child_id IN (SELECT id FROM task WHERE batch_id = $1) ORDER BY parent_id, child_id`, batch)
	if err := errors.Join(err, linksErr); err != nil {
		return nil, err
	}
	p := &page{Batch: batch, Reload: 1 + len(tasks)/500, NodeWidth: nodeWidth, NodeHeight: nodeHeight}
	for _, t := range tasks {
		p.Nodes = append(p.Nodes, &node{task: t, NextIn: max(0, t.NextRetryAt.Sub(t.now.Time)).Round(100 * time.Millisecond)})
	}
	p.arrange(links)
	return p, nil
}

// arrange puts each task to the right of all that it depends on, and draws the lines, each from a
// parent to a child. None of them crosses a node: one that does not lead to the next column has a
// lane below all nodes, which it shares with the others from its parent.
func (p *page) arrange(links [][2]string) {
	parents, nodes := map[string][]string{}, map[string]*node{}
	for _, n := range p.Nodes {
		nodes[n.ID] = n
	}
	links = slices.DeleteFunc(links, func(l [2]string) bool { return nodes[l[0]] == nil || nodes[l[1]] == nil }) // of another batch
	for _, l := range links {
		parents[l[1]] = append(parents[l[1]], l[0])
	}
	order, _ := shared.Order(slices.Collect(maps.Keys(parents)), parents)
	for _, id := range order {
		for _, parent := range parents[id] {
			nodes[id].X = max(nodes[id].X, nodes[parent].X+columnWidth)
		}
	}
	bottoms := map[int]int{} // of columns
	for _, n := range p.Nodes {
		n.Y = bottoms[n.X]
		bottoms[n.X] += nodeHeight + gapHeight
		p.Width, p.Height = max(p.Width, n.X+nodeWidth), max(p.Height, bottoms[n.X])
	}
	lanes := map[string]int{}
	for _, l := range links {
		from, to := nodes[l[0]], nodes[l[1]]
		x, y, endX, endY := from.X+nodeWidth, from.Y+nodeHeight/2, to.X, to.Y+nodeHeight/2
		if endX-x == gapWidth {
			p.Lines = append(p.Lines, fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x, y, x+gapWidth/2, y, x+gapWidth/2, endY, endX, endY))
			continue
		}
		if lanes[from.ID] == 0 {
			lanes[from.ID] = p.Height
			p.Height += laneHeight
		}
		p.Lines = append(p.Lines, fmt.Sprintf("M%d %d H%d V%d H%d V%d H%d", x, y, x+gapWidth/3, lanes[from.ID], endX-gapWidth/3, endY, endX))
	}
}

package main

import (
	"context"
	"database/sql"
	_ "embed"
	"html/template"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

//go:embed dag.html
var dagHTML string

var dagPage = template.Must(template.New("dag").Parse(dagHTML))

// The places of nodes on the page.
const (
	nodeWidth, nodeHeight   = 280, 106
	columnWidth, lineHeight = nodeWidth + 70, nodeHeight + 24
)

// node is a task on the page.
type node struct {
	task

	X, Y   int
	NextIn time.Duration // if there is a NextRetryAt
	placed bool
}

// edge is a line from a task to one that depends on it.
type edge struct{ X1, Y1, X2, Y2 int }

// dag serves the page with the graph of a batch, of the last one if none is named.
func (s *service) dag(w http.ResponseWriter, r *http.Request) {
	page, err := s.layout(r.Context(), r.URL.Query().Get("batch"))
	if err != nil {
		s.log.Error("GET /dag", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = dagPage.Execute(w, page) // the caller has gone
}

// dagData is what the page shows.
type dagData struct {
	Batch                                string
	Reload                               int // in so many seconds
	Nodes                                []*node
	Edges                                []edge
	Width, Height, NodeWidth, NodeHeight int
}

const lastBatch = "SELECT coalesce((SELECT CAST(batch_id AS text) FROM task ORDER BY created_at DESC LIMIT 1), 'none')"

// layout puts each task to the right of all that it depends on.
func (s *service) layout(ctx context.Context, batch string) (*dagData, error) {
	if batch == "" {
		if err := s.db.QueryRowContext(ctx, lastBatch).Scan(&batch); err != nil {
			return nil, err
		}
	}
	tasks, err := s.list(ctx, "", batch)
	if err != nil {
		return nil, err
	}
	links, err := s.links(ctx, batch)
	if err != nil {
		return nil, err
	}
	page := &dagData{Batch: batch, Reload: 1 + len(tasks)/500, NodeWidth: nodeWidth, NodeHeight: nodeHeight}
	nodes := map[string]*node{}
	for _, t := range tasks {
		n := &node{task: t, NextIn: max(0, t.NextRetryAt.Sub(t.now.Time)).Round(100 * time.Millisecond)}
		nodes[t.ID], page.Nodes = n, append(page.Nodes, n)
	}
	arrange(nodes, links)
	lines := map[int]int{}
	for _, n := range page.Nodes {
		n.Y = lines[n.X] * lineHeight
		lines[n.X]++
		page.Width, page.Height = max(page.Width, n.X+nodeWidth), max(page.Height, n.Y+nodeHeight)
	}
	for _, l := range links {
		from, to := nodes[l[0]], nodes[l[1]]
		page.Edges = append(page.Edges, edge{from.X + nodeWidth, from.Y + nodeHeight/2, to.X, to.Y + nodeHeight/2})
	}
	return page, nil
}

// arrange gives each node the column after the last one that it depends on.
func arrange(nodes map[string]*node, links [][2]string) {
	parents := map[string][]string{}
	for _, l := range links {
		parents[l[1]] = append(parents[l[1]], l[0])
	}
	var place func(id string) int
	place = func(id string) int {
		n := nodes[id]
		if !n.placed {
			n.placed = true
			for _, parent := range parents[id] {
				n.X = max(n.X, place(parent)+columnWidth)
			}
		}
		return n.X
	}
	for id := range nodes {
		place(id)
	}
}

// links returns the pairs of parent and child of a batch.
func (s *service) links(ctx context.Context, batch string) ([][2]string, error) {
	return shared.Query(ctx, s.db, func(rows *sql.Rows) (l [2]string, err error) {
		return l, rows.Scan(&l[0], &l[1])
	}, `SELECT parent_id, child_id FROM task_link
		WHERE child_id IN (SELECT id FROM task WHERE batch_id = $1) ORDER BY parent_id, child_id`, batch)
}

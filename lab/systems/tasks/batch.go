package main

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// mostFaults is how many faults of a batch are told. Each quotes what was sent.
const mostFaults = 20

// validateBatch reports what is wrong with a batch.
func (s *service) validateBatch(batch []newTask) error {
	if len(batch) == 0 {
		return errors.New("tasks: 0: must be at least 1")
	}
	var errs []error
	fail := func(t *newTask, field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("task %.60q: %s%w", t.ID, field, err))
		}
	}
	var ids []string
	needs := map[string][]string{}
	for i := range batch {
		t := &batch[i]
		if _, known := needs[t.ID]; known || t.ID == "" {
			fail(t, "id: ", errors.New("must be there and unique"))
		}
		ids = append(ids, t.ID)
		needs[t.ID] = t.Dependencies
		fail(t, "", shared.Must(t.Timeout >= 0, "timeout", t.Timeout, "not be negative"))
		fail(t, "", shared.Must(t.MaxRunning >= 0, "max_concurrency", t.MaxRunning, "not be negative"))
		var err error
		t.policy, err = newPolicy(t.Retry, s.limits)
		fail(t, "retry: ", err)
		fail(t, "on_start: ", t.OnStart.validate())
		fail(t, "on_success: ", t.OnSuccess.validate())
		fail(t, "on_failure: ", t.OnFailure.validate())
	}
	for i := range batch {
		for _, parent := range batch[i].Dependencies {
			if _, known := needs[parent]; !known {
				fail(&batch[i], "dependencies: ", fmt.Errorf("%.60q: there is no such task", parent))
			}
		}
	}
	if _, cycle := shared.Order(ids, needs); cycle != nil {
		errs = slices.Insert(errs, 0, fmt.Errorf("dependencies: there is a cycle: %.1000s", strings.Join(cycle, " needs ")))
	}
	if more := len(errs) - mostFaults; more > 0 {
		errs = append(errs[:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// create stores a batch.
func (s *service) create(ctx context.Context, batch []newTask) (created []task, err error) {
	if err := s.validateBatch(batch); err != nil {
		return nil, &problem{http.StatusBadRequest, err.Error()}
	}
	batchID, ids := uuid.NewString(), map[string]string{}
	for _, t := range batch {
		ids[t.ID] = uuid.NewString()
	}
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i, t := range batch {
			if err := s.insert(ctx, tx, batchID, i, t, ids); err != nil {
				return err
			}
		}
		created, err = s.tasks(ctx, tx, "SELECT "+taskColumns+" FROM task WHERE batch_id = $1 ORDER BY position", batchID)
		return err
	})
	return created, err
}

// insert stores a task, if an earlier try of the transaction has not.
func (s *service) insert(
	ctx context.Context, tx *sql.Tx, batchID string, position int, t newTask, ids map[string]string,
) error {
	first := pending
	if len(t.Dependencies) > 0 {
		first = waiting
	}
	if _, err := tx.ExecContext(ctx, s.db.SQL(`INSERT INTO task (id, batch_id, position, local_id, name, kind, timeout,
			max_concurrency, status, on_start, on_success, on_failure, retry_policy, created_at, last_updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, {now}, {now}) ON CONFLICT DO NOTHING`),
		ids[t.ID], batchID, position, t.ID, t.Name, t.Kind, cmp.Or(t.Timeout, 60), t.MaxRunning, string(first),
		shared.JSON{In: t.OnStart}, shared.JSON{In: t.OnSuccess}, shared.JSON{In: t.OnFailure}, shared.JSON{In: t.policy}); err != nil {
		return err
	}
	for _, parent := range t.Dependencies {
		const link = "INSERT INTO task_link VALUES ($1, $2) ON CONFLICT DO NOTHING"
		if _, err := tx.ExecContext(ctx, link, ids[parent], ids[t.ID]); err != nil {
			return err
		}
	}
	return nil
}

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

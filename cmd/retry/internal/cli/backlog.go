package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/pace"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
)

// backlog is many jobs that come at once, behind a limit that they do not know.
type backlog struct {
	limit limit
	jobs  int
}

// limit is how many requests a server takes in each window of time.
type limit struct {
	n      int
	window time.Duration
}

const (
	mostJobs = 10_000
	places   = 100 // how many jobs are under way at a time
	service  = 50 * time.Millisecond
)

// String returns what parseLimit reads.
func (l limit) String() string { return fmt.Sprintf("%d/%v", l.n, l.window) }

func parseLimit(text string) (l limit, err error) {
	n, window, _ := strings.Cut(text, "/")
	if l.n, err = strconv.Atoi(n); err == nil && window != "" {
		l.window, err = parseDuration(window)
	}
	if err != nil || l.n < 1 || l.window <= 0 {
		return limit{}, errors.New("must be requests and the time that they are for, such as 50/2s")
	}
	return l, nil
}

func parseJobs(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostJobs {
		return 0, fmt.Errorf("must be a number from 1 to %d", mostJobs)
	}
	return n, nil
}

// print shows what becomes of the jobs, by a simulation: each alone, and behind a Quota.
func (b *backlog) print(w io.Writer, takes time.Duration) error {
	s := scene.Scene{
		Server: scene.Window(b.limit.n, b.limit.window, scene.Seconds), Demand: []scene.Batch{{Jobs: b.jobs}},
		Processes: 1, Places: places, Service: cmp.Or(takes, service), MaxHold: max(time.Minute, b.limit.window),
	}
	fmt.Fprintf(w, "\nBehind a limit of %d requests in %v, %d jobs, %d at a time:\n\n", b.limit.n, b.limit.window, b.jobs, places)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\trefused\ttake")
	for _, way := range []struct {
		name string
		new  func() scene.Pacer
	}{
		{"each waits by its own hint", func() scene.Pacer { return scene.Single{} }},
		{"they share a Quota", func() scene.Pacer { return &pace.Machine{} }},
	} {
		r := scene.Run(s, way.new, 1)
		fmt.Fprintf(t, "%s\t%.0f\t%v\n", way.name, r.Refused*float64(b.jobs), round(r.Took[0]))
	}
	return t.Flush()
}

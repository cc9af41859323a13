package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
)

// speed is how much faster than its settings a demonstration goes: 30 s take 300 ms.
const speed = 100

// demoCommand plays a day on which the API is rate limited, and a person who takes
// care of what that has put on hold.
func demoCommand(flags *flag.FlagSet) shared.Action {
	s := &settings{timeout: time.Minute, lease: time.Minute, interval: time.Second / speed, workers: 2, metrics: "127.0.0.1:0"}
	s.policyFlags(flags)
	open := shared.Sandbox(flags)
	return func(ctx context.Context, out io.Writer) (err error) {
		if err := shared.Positive(flags); err != nil {
			return err
		}
		if _, err := s.readPolicy(); err != nil { // before its delays are scaled
			return err
		}
		db, err := open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return s.demonstrate(ctx, db, out)
	}
}

func (s *settings) demonstrate(ctx context.Context, db *shared.DB, out io.Writer) error {
	dir, err := os.MkdirTemp("", "tickets-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	statements, err := lacks(ctx, db)
	if err == nil {
		err = db.Migrate(ctx, io.Discard, statements, false)
	}
	if err != nil {
		return err
	}
	s.delay, s.maxDelay = shared.Faster(s.delay, speed), shared.Faster(s.maxDelay, speed)
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	limited, err := seed(ctx, db, filepath.Join(dir, "quota"))
	if err != nil {
		return err
	}
	e, err := s.engine(ctx, db, out)
	if err != nil {
		return err
	}
	changes := make(chan struct{}, 1000)
	tell := e.notify
	e.notify = func(c change) { tell(c); changes <- struct{}{} }
	serving.Go(func() { _ = e.worker(s.workers).Run(ctx) })
	if err := settle(ctx, db, changes); err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(dir, "quota"), nil, 0o600); err != nil {
		return err
	}
	e.log.Info("human: has raised the quota, and releases", "id", limited)
	if err := release(ctx, db, limited, "alice"); err != nil {
		return err
	}
	if err := settle(ctx, db, changes); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := list(ctx, db, "", out); err != nil {
		return err
	}
	return printMetrics(ctx, e.metrics.url, out)
}

// seed adds a ticket of each kind, and returns the one that is rate limited until
// the file is there.
func seed(ctx context.Context, db *shared.DB, file string) (limited string, err error) {
	for i, d := range [][2]string{
		{"translate", "test -e '" + file + "' || { echo '429: API rate limit exceeded' >&2; exit 1; }"},
		{"summarize", "test $RETRY_COUNT -ge 1 || { echo 'request timed out' >&2; exit 1; }"},
		{"publish", "echo 'API error: 401 Unauthorized' >&2; exit 1"},
		{"compile", "if true; do"},
		{"deploy", "cat /nowhere/deploy.key"},
		{"puzzle", "exit 3"},
		{"format", "true"},
	} {
		id, err := add(ctx, db, d[0], d[1], "agent", 10*(7-i))
		if err != nil {
			return "", err
		}
		if i == 0 {
			limited = id
		}
	}
	_, err = add(ctx, db, "interview", "a person does this", "human", 100)
	return limited, err
}

// settle waits until the agents have nothing left to do.
func settle(ctx context.Context, db *shared.DB, changes <-chan struct{}) error {
	for {
		var left int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM tickets "+
			"WHERE assignee_type = 'agent' AND state IN ('ready', 'in_progress')").Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes:
		}
	}
}

// printMetrics prints what Prometheus would scrape, but for the buckets.
func printMetrics(ctx context.Context, url string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Fprintf(out, "\n%s\n", url)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket") {
			fmt.Fprint(out, line)
		}
	}
	return err
}

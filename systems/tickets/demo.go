package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// speed is how much faster than its settings a demonstration goes: 30 s take 300 ms.
const speed = 100

// demoCommand plays a day on which the API is rate limited, and a person who takes
// care of what that has put on hold.
func demoCommand(flags *flag.FlagSet) shared.Action {
	s := &settings{timeout: time.Minute, lease: time.Minute, interval: time.Second / speed, workers: 2, metrics: "127.0.0.1:0"}
	check := s.delays(flags)
	open := shared.Sandbox(flags)
	return shared.With(open, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if err := check(); err != nil {
			return err
		}
		return s.demonstrate(ctx, db, out)
	})
}

func (s *settings) demonstrate(ctx context.Context, db *shared.DB, out io.Writer) error {
	dir, err := os.MkdirTemp("", "tickets-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := db.Migrate(ctx, io.Discard, lacks, false); err != nil {
		return err
	}
	limited, err := seed(ctx, db, filepath.Join(dir, "quota"))
	if err != nil {
		return err
	}
	s.delay, s.maxDelay = shared.Faster(s.delay, speed), shared.Faster(s.maxDelay, speed)
	e, err := s.engine(ctx, db, out)
	if err != nil {
		return err
	}
	if err := s.settle(ctx, e); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "quota"), nil, 0o600); err != nil {
		return err
	}
	e.log.Info("human: has raised the quota, and releases", "id", limited)
	if err := errors.Join(release(ctx, db, limited, "alice"), s.settle(ctx, e)); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return list(ctx, db, "", out)
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

// settle has the agents work until they have nothing left to do.
func (s *settings) settle(ctx context.Context, e *engine) error {
	for left := 1; left > 0; {
		if _, err := e.worker(s.workers).Once(ctx); err != nil {
			return err
		}
		err := e.db.QueryRowContext(ctx, "SELECT count(*) FROM tickets WHERE assignee_type = 'agent' AND state = 'ready'").Scan(&left)
		if err := errors.Join(err, shared.Wait(ctx, s.interval)); err != nil {
			return err
		}
	}
	return nil
}

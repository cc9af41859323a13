package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// demonstrate shows on out that jobs outlive their worker. The error says what was not
// as it should be.
func demonstrate(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "worker-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "jobs.db")
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "INSERT INTO jobs (id) VALUES (1), (2), (3)"); err != nil {
		return err
	}

	tell := timeline(out)
	if err := play(ctx, "worker 1", file, "job 2, attempt 1: half of it", tell); err != nil {
		return err
	}
	if err := play(ctx, "worker 2", file, "job 2, attempt 2: done", tell); err != nil {
		return err
	}

	for _, want := range []string{
		"job 1: done, attempts 1, receipts 1",
		"job 2: done, attempts 2, receipts 1", // the lost attempt counts, and wrote nothing
		"job 3: done, attempts 1, receipts 1",
	} {
		var got string
		err := db.QueryRowContext(ctx, `SELECT format('job %d: %s, attempts %d, receipts %d', id, status, attempts,
			(SELECT count(*) FROM receipts WHERE job_id = id)) FROM jobs WHERE id = ?`, want[len("job "):len("job 1")]).Scan(&got)
		if err != nil {
			return err
		}
		tell("table", got)
		if got != want {
			return fmt.Errorf("it should be %q", want)
		}
	}
	return nil
}

// timeline returns a function that writes what somebody did, and when.
func timeline(out io.Writer) func(who, what string) {
	start := time.Now()
	return func(who, what string) {
		fmt.Fprintf(out, "%5.2fs  %-8s  %s\n", time.Since(start).Seconds(), who, what)
	}
}

// play starts a worker, in a process of its own, and kills it as kill -9 does once it has
// written the last line.
func play(ctx context.Context, name, file, last string, tell func(who, what string)) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "work", "-db", file)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tell(name, fmt.Sprintf("starts as process %d", cmd.Process.Pid))
	killed := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		tell(name, lines.Text())
		if lines.Text() == last {
			killed = cmd.Process.Kill() == nil
			tell(name, "is killed by kill -9")
		}
	}
	if err := cmd.Wait(); !killed {
		return fmt.Errorf("%s ended before %q: %w", name, last, err)
	}
	return nil
}

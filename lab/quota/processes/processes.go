package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// taskVariable is the environment variable that has the task of a process, as JSON.
const taskVariable = "RETRY_BENCHMARKS_QUOTA"

// tally counts the jobs that a process has done.
type tally struct{ prompts, others atomic.Int64 }

// note counts a job of this kind.
func (t *tally) note(kind string) {
	if kind == prompt {
		t.prompts.Add(1)
	} else {
		t.others.Add(1)
	}
}

// done is what all processes have done.
type done struct {
	prompts, others int
	began           time.Time
}

// start starts the processes, and ends them when all jobs are done or the limit is over. It
// returns when that was.
func start(ctx context.Context, t *task, limit time.Duration) (last time.Time, all done, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return last, all, err
	}
	self, err := os.Executable()
	if err != nil {
		return last, all, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	news, ends := make(chan [2]int), []io.Closer{}
	for range t.Processes {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env, cmd.Stderr = append(os.Environ(), taskVariable+"="+string(text)), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return last, all, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return last, all, err
		}
		ends = append(ends, in)
		if err := cmd.Start(); err != nil {
			return last, all, err
		}
		group.Go(func() error {
			var before [2]int
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var now [2]int
				if _, err := fmt.Sscan(lines.Text(), &now[0], &now[1]); err != nil {
					return err
				}
				select {
				case news <- [2]int{now[0] - before[0], now[1] - before[1]}:
				case <-ctx.Done():
				}
				before = now
			}
			return cmd.Wait()
		})
	}
	all.began = time.Now()
	last = all.watch(ctx, t, limit, news)
	go func() { // what they tell meanwhile
		for range news {
		}
	}()
	for _, in := range ends {
		err = errors.Join(err, in.Close())
	}
	err = errors.Join(err, group.Wait())
	close(news)
	return last, all, err
}

// watch counts until all jobs are done, or the limit is over, and returns when that was.
func (d *done) watch(ctx context.Context, t *task, limit time.Duration, news <-chan [2]int) time.Time {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	for {
		select {
		case n := <-news:
			d.prompts += n[0]
			d.others += n[1]
		case <-over:
			return time.Now()
		case <-ctx.Done():
			return time.Now()
		}
		if (limit > 0 || d.prompts == t.Before+t.Prompts) && d.others == t.Others {
			return time.Now()
		}
	}
}

// child is a process. It works until its input ends, and prints what it has done.
func child(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	var all tally
	go func() {
		var told [2]int64
		for ctx.Err() == nil {
			if now := [2]int64{all.prompts.Load(), all.others.Load()}; now != told {
				fmt.Fprintln(out, now[0], now[1])
				told = now
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for _, c := range contestants {
		if c.name == t.By {
			return c.work(ctx, &t, &all)
		}
	}
	return fmt.Errorf("no contestant %q", t.By)
}

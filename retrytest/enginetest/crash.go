package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Crash says how to drive an engine whose workers are processes, which [Crash.Run] kills
// at random moments.
type Crash struct {
	// Open returns an empty queue that no other test uses, and its address for Attach.
	Open func(t testing.TB) (q Queue, address string)

	// Attach returns the queue at an address, in a worker process. Its Start starts a
	// worker that takes one job at a time, and has no other job in a buffer: a crash
	// would cost that one an attempt too.
	Attach func(t testing.TB, address string) Queue

	// Died, if not nil, is called before another process is started, with the processes that
	// were killed, the latest last, and the jobs that the latest had begun and not ended. It
	// makes the engine notice at once what it would notice after minutes.
	Died func(q Queue, pids []int, begun []string) error

	// Forgets says that the engine keeps no record of successes. Run then relies on the
	// handler's success.
	Forgets bool
}

// The variables that make this program a worker.
const (
	crashAddress = "RETRY_ENGINETEST_CRASH_ADDRESS"
	crashDir     = "RETRY_ENGINETEST_CRASH_DIR"
)

const (
	crashJobs      = 200
	crashProcesses = 2
	crashKills     = 25
	crashAttempts  = 8
	crashPatience  = 3 * time.Minute
)

// crashPolicy is that of the workers.
func crashPolicy() *retry.Policy {
	return &retry.Policy{
		Name: "crash", MaxAttempts: crashAttempts, Backoff: retry.Constant(20 * time.Millisecond), Jitter: retry.NoJitter,
	}
}

// poison says whether a job kills its worker, and flaky how often it fails.
func poison(n int) bool { return n%50 == 7 }
func flaky(n int) int   { return n % 3 }

// Run kills worker processes with signal 9 while they work on 200 jobs: 25 times at
// random moments, and a few jobs kill theirs each time. All jobs have to end. No job may
// begin more often than the policy has attempts. Jobs that kill have to be
// given up. The others fail up to twice and have to succeed.
//
// A worker process is the test program itself. It runs only the test that calls Run, so
// Run must come first in that test.
func (c *Crash) Run(t *testing.T) {
	t.Helper()
	if address, worker := os.LookupEnv(crashAddress); worker {
		c.work(t, address)
		return
	}
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	q, address := c.Open(t)
	s := &supervisor{Crash: c, t: t, queue: q, address: address, journal: journal{t.TempDir()}}
	for n := range crashJobs {
		if err := q.Submit(t.Context(), kind, jobName(n)); err != nil {
			t.Fatalf("enginetest: submit: %v", err)
		}
	}
	s.run()
	s.judge()
}

func jobName(n int) string { return fmt.Sprintf("job-%d", n) }

// work is what a worker process does until it is killed.
func (c *Crash) work(t *testing.T, address string) {
	t.Helper()
	go func() { // it does not outlive the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	j := journal{os.Getenv(crashDir)}
	_, err := c.Attach(t, address).Start(Policies{Policy: crashPolicy()}, j.handle)
	if err != nil {
		t.Fatalf("enginetest: start: %v", err)
	}
	select {}
}

// journal is a folder with a file for every job, in which its attempts write what they
// do. What is written survives the process.
type journal struct{ dir string }

// The lines of a journal. A number follows that of the process in the first.
const (
	began  = "began"
	failed = "failed"
	done   = "done"
)

func (j journal) lines(job string) []string {
	text, _ := os.ReadFile(filepath.Join(j.dir, job)) // none is fine
	return strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n")
}

func (j journal) write(job, line string) error {
	f, err := os.OpenFile(filepath.Join(j.dir, job), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func count(lines []string, word string) (n int) {
	for _, line := range lines {
		if first, _, _ := strings.Cut(line, " "); first == word {
			n++
		}
	}
	return n
}

// handle is the handler of the worker processes.
func (j journal) handle(_ context.Context, job string) error {
	before := j.lines(job)
	if err := j.write(job, began+" "+strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	time.Sleep(rand.N(50 * time.Millisecond))
	n := numberOf(job)
	switch {
	case poison(n):
		time.Sleep(300 * time.Millisecond) // an engine may store successes in batches
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		time.Sleep(time.Minute)
		return errors.Join(errors.New("still alive"), err)
	case count(before, failed) < flaky(n):
		return errors.Join(errBoom, j.write(job, failed))
	default:
		return j.write(job, done)
	}
}

// begunBy returns the jobs that a process has begun and not ended.
func (j journal) begunBy(pid int) (jobs []string) {
	for n := range crashJobs {
		lines := j.lines(jobName(n))
		if lines[len(lines)-1] == began+" "+strconv.Itoa(pid) {
			jobs = append(jobs, jobName(n))
		}
	}
	return jobs
}

// supervisor keeps worker processes alive, and kills them.
type supervisor struct {
	*Crash

	t       *testing.T
	queue   Queue
	address string
	journal journal
	ended   [crashJobs]bool

	mu   sync.Mutex // methods of a Queue are called by one goroutine at a time
	dead []int      // processes
}

// run returns when all jobs have ended.
func (s *supervisor) run() {
	ctx, stop := context.WithTimeout(s.t.Context(), crashPatience)
	defer stop()
	var alive [crashProcesses]atomic.Pointer[os.Process]
	var processes sync.WaitGroup
	for i := range alive {
		processes.Go(func() {
			for ok := true; ok && ctx.Err() == nil; {
				ok = s.process(ctx, &alive[i])
			}
		})
	}
	start := time.Now()
	left := crashJobs
	for kills := 0; ctx.Err() == nil && (kills < crashKills || left > 0); {
		pause := 100*time.Millisecond + rand.N(500*time.Millisecond)
		if kills > crashKills { // few, so that the others get on
			pause = 3 * time.Second
		}
		time.Sleep(pause)
		p := alive[rand.N(crashProcesses)].Load()
		for end := time.Now().Add(pause); kills%5 == 0 && p != nil && len(s.journal.begunBy(p.Pid)) == 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond) // a slow machine has hardly begun; each look reads all journals
		}
		if p != nil && p.Kill() == nil {
			kills++
		}
		left = s.left(ctx)
	}
	if left > 0 {
		s.t.Errorf("enginetest: %d jobs have not ended after %v", left, crashPatience)
	}
	stop()
	processes.Wait()
	s.t.Logf("%d workers died in %v", len(s.dead), time.Since(start).Round(time.Second))
}

// process runs a worker process until it is dead, and reports whether that went well.
func (s *supervisor) process(ctx context.Context, alive *atomic.Pointer[os.Process]) bool {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+s.t.Name()+"$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), crashAddress+"="+s.address, crashDir+"="+s.journal.dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		if ctx.Err() == nil { // the test has not ended just now
			s.t.Errorf("enginetest: worker: %v", err)
		}
		return false
	}
	alive.Store(cmd.Process)
	err = cmd.Wait()
	_ = stdin.Close()
	if err == nil || err.Error() != "signal: killed" {
		s.t.Errorf("enginetest: a worker ended, and was not killed: %v: %s", err, output.Bytes())
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, cmd.Process.Pid)
	if s.Died == nil || ctx.Err() != nil {
		return true
	}
	if err := s.Died(s.queue, s.dead, s.journal.begunBy(cmd.Process.Pid)); err != nil {
		s.t.Errorf("enginetest: died: %v", err)
		return false
	}
	return true
}

// status returns how a job has ended.
func (s *supervisor) status(ctx context.Context, n int) (Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.queue.Outcome(ctx, jobName(n))
	if err == nil && o.Status == Open && s.Forgets && count(s.journal.lines(jobName(n)), done) > 0 {
		return Succeeded, nil
	}
	return o.Status, err
}

// left returns how many jobs have not ended.
func (s *supervisor) left(ctx context.Context) (left int) {
	for n := range crashJobs {
		if !s.ended[n] {
			status, err := s.status(ctx, n)
			s.ended[n] = err == nil && status != Open
		}
		if !s.ended[n] {
			left++
		}
	}
	return left
}

// judge compares what became of the jobs with what should have.
func (s *supervisor) judge() {
	interrupted := 0
	for n := range crashJobs {
		status, err := s.status(context.WithoutCancel(s.t.Context()), n)
		lines := s.journal.lines(jobName(n))
		attempts := count(lines, began)
		want := Succeeded
		if poison(n) {
			want = GaveUp
		} else {
			interrupted += attempts - count(lines, failed) - count(lines, done)
		}
		if err != nil || status != want || attempts > crashAttempts {
			s.t.Errorf("enginetest: job %d: %v after %d attempts of %d, want %v (%v): %q",
				n, status, attempts, crashAttempts, want, err, lines)
		}
		if want == Succeeded && count(lines, done) == 0 {
			s.t.Errorf("enginetest: job %d: the engine says %v, but it was not done: %q", n, status, lines)
		}
	}
	if interrupted == 0 {
		s.t.Errorf("enginetest: the kills hit no work")
	}
	s.t.Logf("%d attempts that were no poison were interrupted", interrupted)
}

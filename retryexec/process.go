package retryexec

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// process is a command that was started.
type process struct {
	cmd     *exec.Cmd
	streams *streams
	leads   bool          // a process group
	left    time.Duration // the time to end after stop; 0: stop kills it
	delay   time.Duration // the time for its streams to end after it

	stop     func() error  // tells it to end; acts once
	stopping chan struct{} // closed by stop
	ended    chan struct{} // closed when it has ended

	mu   sync.Mutex
	gone bool  // it is reaped: another process may get its number
	err  error // of Cmd.Wait
}

// start starts cmd as the leader of a group, if it can be.
func start(cmd *exec.Cmd, in *input) (*process, error) {
	p := &process{
		cmd:      cmd,
		streams:  &streams{in: in},
		leads:    ownGroup(cmd),
		delay:    cmd.WaitDelay,
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
	}
	if p.delay == 0 {
		p.delay = pipeDelay
	}
	stop := p.kill
	if cmd.Cancel != nil && cmd.WaitDelay > 0 {
		stop, p.left = cmd.Cancel, cmd.WaitDelay
	}
	p.stop = sync.OnceValue(func() error {
		close(p.stopping)
		if done.Closed(p.ended) {
			_ = p.kill() // the processes that it has left behind
			return os.ErrProcessDone
		}
		return stop()
	})
	if cmd.Cancel != nil {
		// os/exec and wait may see the context end in either order, or only one
		// of them: the Cmd may have another context than the attempt.
		cmd.Cancel = p.stop
	}
	err := p.streams.connect(cmd)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.streams.abort()
		return nil, startFailure(cmd, err)
	}
	p.streams.run()
	return p, nil
}

// wait waits for the end of the process and of its streams, and stops it when ctx
// ends before.
func (p *process) wait(ctx context.Context) error {
	unhook := context.AfterFunc(ctx, func() { _ = p.stop() })
	go p.awaitEnd()
	select {
	case <-p.ended:
	case <-p.stopping:
		p.insist()
	}
	streamErr := p.streams.finish(p.stopping, p.delay)
	if !unhook() {
		_ = p.stop() // returns when the call in progress does
	}
	if err := p.reap(); err != nil {
		return err // os/exec reports the result of stop
	}
	return streamErr
}

// awaitEnd waits for the end of the process. If the system allows it, the process
// is not reaped yet: it keeps its number, which is also the number of its group,
// so that kill cannot hit another process.
func (p *process) awaitEnd() {
	defer close(p.ended)
	if awaitExit(p.cmd.Process) {
		return
	}
	p.err = p.cmd.Wait()
	if done.Closed(p.stopping) {
		_ = p.kill() // the processes that it has left behind; no other process can have its number yet
	}
	p.retire()
}

// insist kills a process that does not end after stop, or the processes that it
// leaves behind.
func (p *process) insist() {
	if p.left > 0 {
		timer := time.NewTimer(p.left)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		}
		_ = p.kill()
	}
	<-p.ended
}

// kill kills the process with its group.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return os.ErrProcessDone
	}
	return killAll(p.cmd.Process, p.leads)
}

// reap returns the result of the process. The process has ended.
func (p *process) reap() error {
	if p.retire() {
		p.err = p.cmd.Wait()
	}
	return p.err
}

// retire makes kill do nothing. It returns false if it was called before.
func (p *process) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.gone
	p.gone = true
	return !was
}

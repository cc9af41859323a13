package retryexec

import (
	"context"
	"os/exec"
	"sync"
	"time"
)

// process is a command that was started, or could not be.
type process struct {
	cmd  *exec.Cmd
	err  error         // of the start
	stop func() error  // tells the process to end; called once
	kill func() error  // kills it with all that it started
	left time.Duration // how long it may take to end by itself; 0: stop is kill
}

// start starts cmd as the leader of a group, if it can be.
func start(cmd *exec.Cmd) *process {
	leads := ownGroup(cmd)
	p := &process{cmd: cmd, kill: func() error { return killAll(cmd.Process, leads) }}
	p.stop = p.kill
	if cmd.Cancel != nil && cmd.WaitDelay > 0 {
		p.stop, p.left = cmd.Cancel, cmd.WaitDelay
	}
	p.stop = sync.OnceValue(p.stop)
	if cmd.Cancel != nil {
		// os/exec and watch may see the context end in either order, or only
		// one of them: the context of the Cmd need not be that of the attempt.
		cmd.Cancel = p.stop
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = pipeDelay
	}
	p.err = cmd.Start()
	return p
}

// wait waits for the end of the process, and stops it when ctx ends before.
func (p *process) wait(ctx context.Context) error {
	if p.err != nil {
		return startFailure(p.cmd, p.err)
	}
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watch(ctx, ended) })
	err := p.cmd.Wait()
	close(ended)
	watcher.Wait()
	return err
}

func (p *process) watch(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = p.stop() // os/exec reports what comes of it
	if p.left == 0 {
		return
	}
	timer := time.NewTimer(p.left)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	// Even if the process has ended: what it started may live on. The number of
	// a group is not given away as long as one of them does.
	_ = p.kill()
}

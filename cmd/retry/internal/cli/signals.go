package cli

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// forwarder ends the runs when a signal asks for it, and passes the signal on to the
// run in progress: to its whole process group.
type forwarder struct {
	ctx    context.Context //nolint:containedctx // of all runs; it ends with the first signal
	cancel context.CancelFunc
	caught chan os.Signal

	mu     sync.Mutex
	first  os.Signal
	target *exec.Cmd // the run that was told, while it lives
	passed bool      // a run was told
}

// forwardSignals catches signals from now on, until the program ends. To stop catching
// them would take longer than to end.
func forwardSignals() *forwarder {
	f := &forwarder{caught: make(chan os.Signal, 8)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, s := range endSignals {
		// nohup, and a shell for a job in the background, let it ignore a signal: then it does.
		if !signal.Ignored(s) {
			signal.Notify(f.caught, s)
		}
	}
	go func() {
		for s := range f.caught {
			f.receive(s)
		}
	}()
	return f
}

// receive handles a signal. The first one ends the context, by which the run in
// progress gets it; further ones it gets directly.
func (f *forwarder) receive(s os.Signal) {
	f.mu.Lock()
	target := f.target
	if f.first == nil {
		f.first = s
	}
	f.mu.Unlock()
	if target != nil {
		_ = tell(target, s)
	}
	f.cancel()
}

// passOn ends a run whose context has ended: by the signal that has come, or by
// SIGTERM if it is its time that is up.
func (f *forwarder) passOn(cmd *exec.Cmd) error {
	f.mu.Lock()
	f.target = cmd
	s := f.first
	if s == nil {
		s = syscall.SIGTERM
	} else {
		f.passed = true
	}
	f.mu.Unlock()
	return tell(cmd, s)
}

// forget says that the run has ended.
func (f *forwarder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = nil
}

// code returns the signal that has come, or nil, and its exit code.
func (f *forwarder) code() (code int, came os.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, _ := f.first.(syscall.Signal)
	return exitSignal + int(s), f.first
}

// passedOn reports whether a run has got the signal.
func (f *forwarder) passedOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

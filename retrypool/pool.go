package retrypool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

// The errors of this package. Other errors come from the policy.
var (
	// ErrClosed is the error of a task that Close has handed back, and the error of
	// Submit after Close.
	ErrClosed = errors.New("retrypool: closed")

	// ErrFull is the error of TrySubmit if Submit would block.
	ErrFull = errors.New("retrypool: queue is full")

	errNilFunc = errors.New("retrypool: fn is nil")
)

// defaultQueue is the Queue of the zero Pool.
const defaultQueue = 1000

// Pool runs tasks under a policy. The zero Pool is ready to use. It is safe for
// concurrent use, and must be neither changed nor copied after the first task.
// Workers are started when there is work, and end when there is none.
//
// Every task ends exactly once: it succeeded, was given up, was canceled, or was
// handed back by [Pool.Close]. [Pool.Wait] waits until all tasks have ended.
//
// # Order
//
// New tasks start in the order of submission, and retries in the order in which they
// become due; a resumed task counts as a retry. While both new tasks and retries are
// ready, workers take one of each in turn. So a task with n others of its kind before
// it is at most number 2(n+1) to start, however many of the other kind there are: no
// flood of new tasks starves a retry, and no storm of retries starves a new task.
//
// There is one exception. If r retries are ready, and r is at least twice the Queue, then
// r / Queue retries start for each new task. While most tasks fail, Submit therefore
// slows down, and ready retries do not pile up. Even then a new task waits for no more
// retries than are ready.
//
// # Quotas
//
// If the Policy has a Quota, a worker takes a turn before it takes a task. While there is no
// turn, the tasks stay in their queues, and no worker and no goroutine waits for each.
//
// # Cost
//
// To submit a task, to let it wait, or to start a retry that is due takes time at most in
// proportion to the logarithm of the number of tasks. Submitting and waiting took 1 µs
// with a thousand and with a million tasks, starting a retry 1 µs and 5 µs.
//
// A waiting task takes 200 bytes besides its function, its last error and its
// context. A context that can be canceled takes 10 bytes more if many tasks share
// it, and 500 bytes more if each task has its own. A context of a type from
// outside package context also costs a goroutine, as in [context.AfterFunc].
type Pool struct {
	// Workers is the largest number of tasks that run at once; 0 or less means
	// GOMAXPROCS.
	Workers int

	// Queue is the largest number of submitted tasks that have not started yet.
	// 0 or less means 1000. Tasks that wait for a retry do not count, and are
	// not bounded.
	Queue int

	// Policy decides; nil means the zero Policy. AttemptTimeout, Budget, Observer, Clock and
	// MaxElapsed work as in Execute, with one exception: a retry that was due before the end
	// of MaxElapsed is made even if the workers were busy then. If Timeout is over by that
	// time, the context of the attempt ends at once. Several goroutines call the Observer at
	// the same time.
	//
	// A panic of the Classifier, Backoff, Jitter, Rand, Budget or Observer ends the
	// task for which it was called, with a [*retry.PanicError]. A panic of the Clock is
	// not recovered, because no task can go on without it: it ends the program.
	Policy *retry.Policy

	// OnEnd, if not nil, is called at the end of every task, with the context
	// that was given to Submit: a value in that context can identify the task. It
	// is called once for each task, before [Task.Done] is closed, by several
	// goroutines at the same time. It must not block, and must call neither Wait nor
	// Close, which wait for it. If it panics, the panic is an error of its task, as a
	// [*retry.PanicError] in [Task.Err], and the pool goes on.
	OnEnd func(ctx context.Context, t *Task)

	once  sync.Once
	slots chan struct{} // has one for each task that has not started
	shut  chan struct{} // closed by Close

	mu      sync.Mutex
	number  uint64    // of the last task
	fresh   line      // tasks to be run for the first time, in order of submission
	due     line      // tasks to be run again, in the order in which they became due
	retries int       // taken since the last fresh task
	waiting agenda    // tasks that are not due yet
	turns   turns     // that the Quota has granted, for the next tasks
	held    time.Time // when to ask the Quota for a turn again; zero if it may be asked now
	watches map[<-chan struct{}]*watch
	running map[*Task]context.CancelFunc
	left    []*Task       // handed back by workers
	open    int           // tasks that have not ended, or whose OnEnd has not returned
	rest    chan struct{} // closed when open becomes 0; nil if no Wait needs it

	workers    int                // goroutines that run tasks
	goroutines int                // all of them
	wake       context.CancelFunc // wakes the goroutine that waits for the first of waiting; nil if there is none
	closed     bool               // no new tasks and no new waits
	halted     bool               // no new attempts
	idle       chan struct{}      // closed when no goroutine is left; nil if no Close needs it
}

// Submit queues a task, and blocks while the queue is full. ctx is the context of the
// task: when it ends, a task that waits ends too, and a task that runs learns of it.
// The error is the cause of ctx if that ends first, or [ErrClosed]. A task that
// submits others to its own pool should use TrySubmit: if every worker waits for
// a place in the queue, no worker makes one.
func (p *Pool) Submit(ctx context.Context, fn func(context.Context) error) (*Task, error) {
	t, err := p.newTask(ctx, fn)
	if err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
		return p.enqueue(t)
	case <-p.shut:
		return nil, ErrClosed
	case <-t.ctx.Done():
		return nil, context.Cause(t.ctx)
	}
}

// TrySubmit is like Submit but does not block: if the queue is full, the error is
// [ErrFull].
func (p *Pool) TrySubmit(ctx context.Context, fn func(context.Context) error) (*Task, error) {
	t, err := p.newTask(ctx, fn)
	if err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
		return p.enqueue(t)
	default:
		return nil, ErrFull
	}
}

// Resume continues a task that has failed before, also in another process: s and at
// come from [Task.State] or from [retry.Policy.Next]. The task waits until at without a
// place in the queue. If the policy allows no further attempt, for example after a crash
// in the last attempt, Resume returns the error that ends the task; see
// [retry.Policy.Exhausted]. For a task that is still in memory, [Pool.ResumeTask] is
// shorter.
func (p *Pool) Resume(
	ctx context.Context, s retry.State, at time.Time, fn func(context.Context) error,
) (*Task, error) {
	t, err := p.newTask(ctx, fn)
	if err != nil {
		return nil, err
	}
	t.state = s
	if err := p.readmit(t, at, p.Policy.Now()); err != nil {
		return nil, err
	}
	return t, nil
}

// enqueue takes a task that has a place in the queue.
func (p *Pool) enqueue(t *Task) (*Task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		<-p.slots
		return nil, ErrClosed
	}
	p.admit(t)
	p.enlist(t)
	return t, nil
}

// admit adds a task to the count. The lock is held.
func (p *Pool) admit(t *Task) {
	p.number++
	t.number = p.number
	p.open++
}

func (p *Pool) newTask(ctx context.Context, fn func(context.Context) error) (*Task, error) {
	p.once.Do(p.init)
	if fn == nil {
		return nil, errNilFunc
	}
	ctx = orBackground(ctx)
	switch {
	case done.Is(ctx):
		return nil, context.Cause(ctx)
	case done.Closed(p.shut):
		return nil, ErrClosed
	}
	return &Task{pool: p, ctx: ctx, fn: fn}, nil
}

func (p *Pool) init() {
	size := p.Queue
	if size <= 0 {
		size = defaultQueue
	}
	p.slots = make(chan struct{}, size)
	p.shut = make(chan struct{})
	p.watches = map[<-chan struct{}]*watch{}
	p.running = map[*Task]context.CancelFunc{}
}

var zeroPolicy retry.Policy

func (p *Pool) policy() *retry.Policy {
	if p.Policy == nil {
		return &zeroPolicy
	}
	return p.Policy
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

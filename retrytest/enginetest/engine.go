package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Engine says how to drive an engine, and what to expect of it. It must not be changed
// while [Run] uses it.
type Engine struct {
	// Open returns an empty queue that no other test uses. It is called once for every
	// script, by several goroutines at the same time. What it opens is closed by
	// t.Cleanup.
	Open func(t testing.TB) Queue

	// Unit is the shortest wait of the scripts; the others are multiples of it. 0 or
	// less means 50 ms. An engine that only knows seconds wants a second here.
	Unit time.Duration

	// Grain is how much later than decided an attempt may begin while workers are
	// idle: the interval at which the engine polls, the unit that it rounds up to, and
	// what a busy machine adds. 0 or less means 1 second.
	Grain time.Duration

	// Early is how much earlier than decided an attempt may begin: what the engine's
	// clock is rounded to. Engines need 0, unless their clock is coarse and they do not
	// make up for it.
	Early time.Duration

	// Recovery is how long the job may need to run again after a crash or a shutdown, with
	// new workers started at once. 0 or less means 5 seconds.
	Recovery time.Duration

	// AsksAboutLost says that the engine notices that a worker died, and asks the policy
	// about that attempt as about a failure with [retry.ErrLost]: the Observer is told,
	// and the policy's wait goes before the next attempt. Otherwise, the attempt is
	// counted when the job comes again, which may be at once.
	AsksAboutLost bool

	// Jobs is how many jobs the script "many jobs" has. 0 or less means 10,000, and
	// 500 in short mode.
	Jobs int

	// Repeat makes the engine deliver a job again while a worker runs it, as the engine does
	// when it takes the worker for dead. nil means that no test can make it do that; the
	// script "arrives twice" is then left out, and [Result.Cannot] says so.
	Repeat func(ctx context.Context, q Queue, job string) error

	// SubmitLarge submits a job whose message is as large as the engine takes, for the script
	// "largest message". SubmitWith submits a job with headers of the user's, and DeadHeaders
	// returns those that the job has where it was given up, for the script "headers".
	// RefuseDead makes the place of jobs that were given up refuse them until mend is called,
	// for the script "refused dead letter". If one of them is nil, its script is left out, and
	// InPlace or Cannot has to say why.
	SubmitLarge func(ctx context.Context, q Queue, kind, job string) error
	SubmitWith  func(ctx context.Context, q Queue, kind, job string, headers map[string]string) error
	DeadHeaders func(ctx context.Context, q Queue, job string) (map[string]string, error)
	RefuseDead  func(ctx context.Context, q Queue) (mend func() error, err error)

	// OpenTwo opens a queue for the script "bad queue", which is two of the engine's: one for
	// jobs of the kind kind-1, and one for those of the kind kind-2, as [Both] returns. The
	// workers of the two share what those of a process can: a client, a connection, and Run if
	// it can have both. spoil makes the first queue refuse what its workers ask, until mend is
	// called. If OpenTwo is nil, the script is left out, and Cannot has to say why.
	OpenTwo func(t testing.TB) (q Queue, spoil func() (mend func() error, err error))

	// InPlace says that jobs stay where they are, however they end: nothing is copied that
	// could be too large, lose a header or be refused.
	InPlace bool

	// Cannot has the scripts whose promise the engine cannot keep, by name, and says what
	// happens instead. Run fails if anything else happens. Every engine has to keep the
	// promise of the script "many jobs".
	Cannot map[string]Instead

	machine *machine // on which Run is; nil means one that is not busy
}

// without reports whether the engine lacks what a script needs. It has to say why.
func (e *Engine) without(name string) bool {
	switch name {
	case largest:
		return e.SubmitLarge == nil
	case headers:
		return e.SubmitWith == nil || e.DeadHeaders == nil
	case refusedDead:
		return e.RefuseDead == nil
	case badQueue:
		return e.OpenTwo == nil
	default:
		return false
	}
}

// submit submits the job of a script.
func (e *Engine) submit(ctx context.Context, q Queue, pl *play) error {
	switch pl.script.name {
	case largest:
		return e.SubmitLarge(ctx, q, pl.kind, pl.job)
	case headers:
		return e.SubmitWith(ctx, q, pl.kind, pl.job, userHeaders)
	default:
		return q.Submit(ctx, pl.kind, pl.job)
	}
}

// Instead is what happens in a script whose promise an engine cannot keep.
type Instead struct {
	// Why is the reason, in a few words. It must not be empty.
	Why string

	// Told is what the Observer is told, as [retrytest.Recorder.Timeline] returns it.
	Told []string

	// Endless says that the job does not end.
	Endless bool
}

// Handler is what workers run for a job. The adapter under test decides what follows
// when it returns or panics. The context is the one that the adapter gives to the
// user's function.
type Handler func(ctx context.Context, job string) error

// Policies has the fields by which workers decide. Every adapter has fields of these
// names.
type Policies struct {
	Policy    *retry.Policy
	PolicyFor func(kind string) (*retry.Policy, error)
}

// Queue is a queue of an engine. Its methods are called by one goroutine at a time.
type Queue interface {
	// Submit submits a job of a kind, to be run at once. The name of the job is unique
	// in the queue. It and the kind are made of letters, digits and hyphens.
	Submit(ctx context.Context, kind, job string) error

	// Start starts a process, or what stands for one, with at least two workers that run handle
	// under p, if the engine can have them.
	Start(p Policies, handle Handler) (Workers, error)

	// Outcome returns how a job has ended, from the engine's own records.
	Outcome(ctx context.Context, job string) (Outcome, error)
}

// Workers are the workers of one process.
type Workers interface {
	// Stop shuts the workers down as a deployment does: no attempt begins, the
	// contexts of the attempts in progress end, and Stop returns when these have
	// returned and the engine has been told. Stop after Kill does what is left to do. All
	// workers are stopped at the end of the test, also those that were stopped before.
	Stop(ctx context.Context) error

	// Kill ends the workers as kill -9 does: what is in progress is lost, and nobody
	// is told. It does not wait for the handler, which returns at the end of the test.
	Kill() error
}

// Status is what the engine knows of a job.
type Status int

// The statuses.
const (
	Open      Status = iota // waits, runs, or is unknown
	Succeeded               // ended with a success
	GaveUp                  // ended with a failure: discarded, archived, terminated, in a dead letter queue
)

// String returns "open", "succeeded" or "gave up".
func (s Status) String() string {
	switch s {
	case Succeeded:
		return "succeeded"
	case GaveUp:
		return "gave up"
	default:
		return "open"
	}
}

// Outcome is how a job ended.
type Outcome struct {
	Status Status

	// Err is the error text that the engine keeps for a job that was given up. Empty
	// means that the engine keeps none.
	Err string
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

func (e *Engine) unit() time.Duration     { return orDefault(e.Unit, 50*time.Millisecond) }
func (e *Engine) grain() time.Duration    { return orDefault(e.Grain, time.Second) }
func (e *Engine) recovery() time.Duration { return orDefault(e.Recovery, 5*time.Second) }

func (e *Engine) jobs() int {
	if e.Jobs <= 0 && testing.Short() {
		return 500
	}
	return orDefault(e.Jobs, 10_000)
}

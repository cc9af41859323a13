package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/codeGROOVE-dev/retry"
)

var codegroove = &contestant{
	name:   "codegroove",
	module: "github.com/codeGROOVE-dev/retry",
	pkg:    "github.com/codeGROOVE-dev/retry",
	setup:  "`Do` with the options of retry-go",
	prepare: func(p policy) call {
		return codegrooveRun(codegrooveOptions(p)...)
	},
	defaults: func() call {
		return func(_ context.Context, fn operation) error {
			return retry.Do(func() error { return fn(noContext) })
		}
	},
	waits: func(p policy, n int) []time.Duration {
		p.attempts = n + 1
		return timerWaits(func(t skipTimer) {
			_ = retry.Do(func() error { return errOp }, append(codegrooveOptions(p), retry.WithTimer(t))...)
		})
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return retry.DoWithData(fn, append(codegrooveOptions(p), retry.Context(ctx))...)
	},
	perError: func(limits map[error]int) call {
		opts := codegrooveOptions(policy{attempts: 10})
		for err, n := range limits {
			opts = append(opts, retry.AttemptsForError(uint(n), err))
		}
		return codegrooveRun(opts...)
	},
	observe: func(p policy, tell func(event)) call {
		return codegrooveRun(append(codegrooveOptions(p), retry.OnRetry(func(n uint, err error) {
			tell(event{attempt: int(n) + 1, delay: -1, err: err})
		}))...)
	},
	clock: func(p policy, waited func(time.Duration)) call {
		return codegrooveRun(append(codegrooveOptions(p), retry.WithTimer(skipTimer(waited)))...)
	},
	mark:    retry.Unrecoverable,
	hinted:  newHint,
	ownHint: true,
}

func codegrooveRun(opts ...retry.Option) call {
	return func(ctx context.Context, fn operation) error {
		own := append(append([]retry.Option(nil), opts...), retry.Context(ctx))
		return retry.Do(func() error { return fn(noContext) }, own...)
	}
}

func codegrooveOptions(p policy) []retry.Option {
	kind := retry.BackOffDelay
	switch {
	case p.growth == 1:
		kind = retry.FixedDelay
	case p.jitter:
		kind = retry.FullJitterBackoffDelay
	}
	opts := []retry.Option{retry.Attempts(uint(p.attempts)), retry.Delay(p.first), retry.DelayType(kind)}
	if p.limit > 0 {
		opts = append(opts, retry.MaxDelay(p.limit))
	}
	if p.final != nil {
		opts = append(opts, retry.RetryIf(func(err error) bool { return !errors.Is(err, p.final) }))
	}
	if p.hints {
		opts = append(opts, retry.DelayType(func(n uint, err error, c *retry.Config) time.Duration {
			if h, ok := errors.AsType[*hintError](err); ok {
				return h.after
			}
			return kind(n, err, c)
		}))
	}
	return opts
}

package retrytest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry"
)

// Operation is an operation with given outcomes. Make one with [Script]. It is
// safe for concurrent use.
type Operation struct {
	outcomes []error
	calls    atomic.Int64
}

// Script returns an operation whose first call has the first outcome, and so on;
// nil is a success:
//
//	limited := retry.MarkRateLimited(errBusy, 3*time.Second)
//	op := retrytest.Script(errBoom, limited, nil)
//	err := policy.Execute(ctx, op.Run)
//
// A call beyond the last outcome fails with an error that says so. That error is
// marked [retry.Final], so that an unlimited policy ends too. To make calls take
// time, see [Clock.Taking].
func Script(outcomes ...error) *Operation {
	return &Operation{outcomes: slices.Clone(outcomes)}
}

// Run is the operation. It ignores its context.
func (o *Operation) Run(context.Context) error {
	call := o.calls.Add(1)
	if call > int64(len(o.outcomes)) {
		return retry.MarkFinal(fmt.Errorf("retrytest: call %d of an operation with a script for %d", call, len(o.outcomes)))
	}
	return o.outcomes[call-1]
}

// Calls returns the number of calls of Run.
func (o *Operation) Calls() int { return int(o.calls.Load()) }

package retrygrpc

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
)

// answer is what becomes known of an attempt beside its error.
type answer struct {
	target   target
	room     []grpc.CallOption // for opts
	opts     []grpc.CallOption // of the caller, and ours
	trailer  metadata.MD       // nil if there was no stream on any connection
	ends     atomic.Int32      // that grpc has told: trailer means what it says
	applied  atomic.Bool       // grpc has told a success
	onFinish grpc.CallOption   // sets ends and applied
}

func newAnswer() *answer {
	a := &answer{}
	a.onFinish = grpc.OnFinish(func(err error) {
		if err == nil {
			a.applied.Store(true)
		}
		a.ends.Add(1)
	})
	return a
}

// prepare makes an answer that is filled by the attempts of a call. An interceptor behind
// this one that drops the options would make an attempt look like one that was not sent,
// without onFinish.
func (a *answer) prepare(t target, opts []grpc.CallOption) {
	a.target = t
	a.room = append(append(a.room, opts...), grpc.Trailer(&a.trailer), a.onFinish)
	a.opts = slices.Clip(a.room) // an interceptor that appends to them gets a copy
}

// answers keeps the answers of calls that succeeded at once, for other calls. The answer of
// a call with a failure is not used again: an interceptor behind this one may have returned
// before grpc had finished the attempt, and grpc would then write into the answer of
// another call.
var answers = sync.Pool{New: func() any { return newAnswer() }}

// reuse lets another call have the answer.
func (a *answer) reuse() {
	clear(a.room)
	a.target, a.room, a.opts = target{}, a.room[:0], nil
	a.clear()
	answers.Put(a)
}

// clear forgets an attempt.
func (a *answer) clear() {
	a.trailer = nil
	a.ends.Store(0)
	a.applied.Store(false)
}

// told returns the trailer, if grpc has told the end of the attempt.
func (a *answer) told() metadata.MD {
	if a.ends.Load() == 0 {
		return nil
	}
	return a.trailer
}

// unsent reports whether it is certain that no connection has taken the attempt. Where
// grpc retries transparently, what was sent before was not processed.
func (a *answer) unsent() bool { return a.ends.Load() > 0 && a.trailer == nil }

// judge judges the failure of the attempt.
func (a *answer) judge(call *retry.Call, err error, trailer metadata.MD) retry.Verdict {
	if a.unsent() {
		if call.TimedOut() && a.target.waitsForReady(a.opts) {
			// The caller asked to wait for as long as its own deadline allows.
			return retry.Verdict{Class: retry.Pending, NotApplied: true, Exact: true, Category: "grpc_not_ready"}
		}
		v := a.target.judge(call, err, nil)
		v.NotApplied = true
		return v
	}
	v := a.target.judge(call, err, trailer)
	if (a.ends.Load() > 1 || a.applied.Load()) && v.Category == category(status.Code(err)) {
		// An interceptor behind this one has made several calls of it, or has another
		// error for a success: a refusal speaks for the last one only.
		v.NotApplied = false
	}
	return v
}

// judge judges the failure of an attempt that may have been sent.
func (t target) judge(call *retry.Call, err error, trailer metadata.MD) retry.Verdict {
	v := pushedBack(call.Verdict(err), err, trailer)
	if t.retriedByGRPC() {
		v.Class = retry.Final
	}
	return v
}

// pushbackKey is the key of the trailer with which a server decides about retries.
//
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
const pushbackKey = "grpc-retry-pushback-ms"

// pushedBack is the verdict v about err with what the server says about retries.
func pushedBack(v retry.Verdict, err error, trailer metadata.MD) retry.Verdict {
	pushback := trailer[pushbackKey]
	if len(pushback) == 0 {
		return v
	}
	ms, parseErr := strconv.ParseInt(pushback[0], 10, 32)
	if parseErr != nil || ms < 0 || len(pushback) > 1 {
		v.Class = retry.Final
		return v
	}
	code := status.Code(err)
	if v.Class == retry.Final {
		return v // a wait is no reason to repeat what cannot succeed
	}
	v.Class, v.NotApplied = retry.RateLimited, v.NotApplied || refusal(code)
	if wait := time.Duration(ms) * time.Millisecond; wait >= v.After {
		v.After, v.Exact = wait, true
	}
	return v
}

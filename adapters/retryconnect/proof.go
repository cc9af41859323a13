package retryconnect

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/seed-5ff3c98e/retry"
)

// connections counts those that an attempt has asked for and got. That it got none is the
// proof that it was not sent: an error alone may come from anything that a client does.
type connections struct{ asked, got atomic.Int32 }

// watched returns the context of an attempt, and what counts its connections, which is nil
// if nothing depends on it.
func watched(call *retry.Call) (context.Context, *connections) {
	if !call.NonIdempotent && !call.Policy.NonIdempotent {
		return call.Context(), nil
	}
	c := &connections{}
	return httptrace.WithClientTrace(call.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Add(1) },
	}), c
}

// unsent reports whether it is certain that nothing of an attempt was written. A client
// that does not tell when it asks for a connection proves nothing.
func (c *connections) unsent() bool { return c.asked.Load() > 0 && c.got.Load() == 0 }

// judge judges the failure of an attempt.
func judge(call *retry.Call, err error, c *connections) retry.Verdict {
	v := pushedBack(call.Verdict(err), err)
	switch {
	case c == nil:
	case c.unsent():
		v.NotApplied = true
	case c.got.Load() > 1 && v.Category == category(connect.CodeOf(err)):
		// A redirect, or other retries behind this one: a refusal speaks for the last
		// request only.
		v.NotApplied = false
	}
	return v
}

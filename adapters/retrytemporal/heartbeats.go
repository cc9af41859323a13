package retrytemporal

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/seed-5ff3c98e/retry"
)

// patience is how long the last heartbeat of an attempt may take whose context has ended.
const patience = 5 * time.Second

// heartbeats are the heartbeats of an attempt. The State is behind the details of the user:
// who asks for those, in the activity, in a workflow, or in a worker without a policy, gets
// them as they were.
type heartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
	ours bool // or else, all are passed on as they are
	had  int  // how many details of the user's the last attempt has left

	mu      sync.Mutex
	now     stored
	details []any // the last of the user's
}

// stored is the last of the details.
type stored struct {
	State   *retry.State `json:"retry"`
	Attempt int          `json:"attempt"` // the last that State knows of
}

// load returns the State before the attempt, and how many were lost since it was stored. A
// server whose count is behind that of the State has begun anew.
func (h *heartbeats) load(ctx context.Context, info *activity.Info) (s retry.State, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ours = true
	all := h.left(ctx)
	switch {
	case h.now.Attempt >= int(info.Attempt):
		h.now = stored{}
	case h.now.State != nil:
		s = *h.now.State
	case info.Attempt > 1: // by a worker without a policy
		s.First = info.ScheduledTime
	}
	h.had = len(all)
	for _, detail := range all {
		h.details = append(h.details, detail)
	}
	lost = max(int(info.Attempt)-1-h.now.Attempt, 0)
	now := s
	now.Failures += lost
	h.now = stored{State: &now, Attempt: int(info.Attempt) - 1}
	return s, lost
}

// left returns the details that the last attempt has left, and notes the State behind them.
func (h *heartbeats) left(ctx context.Context) (all []converter.RawValue) {
	if !h.Next.HasHeartbeatDetails(ctx) {
		return nil
	}
	for n := 4; len(all) == 0 || all[len(all)-1].Payload() != nil; n *= 2 { // the SDK does not tell how many there are
		all = make([]converter.RawValue, n)
		if h.Next.GetHeartbeatDetails(ctx, pointers(all)...) != nil {
			return nil
		}
	}
	all = all[:slices.IndexFunc(all, func(r converter.RawValue) bool { return r.Payload() == nil })]
	if len(all) == 0 {
		return nil
	}
	users := all[:len(all)-1]
	if h.Next.GetHeartbeatDetails(ctx, append(pointers(users), &h.now)...) != nil || h.now.State == nil {
		h.now = stored{} // the last is the user's too
		return all
	}
	return users
}

// pointers returns where the SDK puts values.
func pointers(all []converter.RawValue) []any {
	into := make([]any, len(all))
	for i := range all {
		into[i] = &all[i]
	}
	return into
}

// store records the State after the attempt, to which the lost ones are still to be added. The
// SDK keeps heartbeats that follow another one too closely, and drops them if the context of
// the attempt has ended: the worker stops, or the activity was paused.
func (h *heartbeats) store(ctx context.Context, s retry.State, lost int) {
	h.mu.Lock()
	h.now.State, h.now.Attempt = &s, h.now.Attempt+1-lost
	details := h.details
	h.mu.Unlock()
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if client := h.Next.GetClient(ctx); ended && client != nil {
		_ = client.RecordActivityHeartbeat(ctx, h.Next.GetInfo(ctx).TaskToken, h.with(details)...)
	}
	h.RecordHeartbeat(ctx, details...)
}

// with returns details with the State behind them.
func (h *heartbeats) with(details []any) []any { return append(slices.Clip(details), h.now) }

// RecordHeartbeat implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ours {
		h.details = slices.Clone(details)
		details = h.with(h.details)
	}
	h.Next.RecordHeartbeat(ctx, details...)
}

// HasHeartbeatDetails implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) HasHeartbeatDetails(ctx context.Context) bool {
	if h.ours {
		return h.had > 0
	}
	return h.Next.HasHeartbeatDetails(ctx)
}

// GetHeartbeatDetails implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) GetHeartbeatDetails(ctx context.Context, into ...any) error {
	switch {
	case !h.ours:
	case h.had == 0:
		return temporal.ErrNoData
	default:
		into = into[:min(len(into), h.had)] // the SDK leaves alone what there is no detail for
	}
	return h.Next.GetHeartbeatDetails(ctx, into...)
}

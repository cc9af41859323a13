package retrytemporal

import (
	"context"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/seed-5ff3c98e/retry"
)

// heartbeats are the heartbeats of an attempt. The State is before the details of the
// user, who does not see it.
type heartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
	foreign bool // the details of the last attempt are without a State
	had     int  // how many details of the user's the last attempt has left
	mu      sync.Mutex
	now     stored
	details []any // the last of the user's
}

// stored is the first of the details.
type stored struct {
	State   *retry.State `json:"retry"`
	Attempt int          `json:"attempt"` // the last that State knows of
	Details int          `json:"details"` // how many of the user's follow
}

// load returns the State before the attempt, and how many were lost since it was stored.
func (h *heartbeats) load(ctx context.Context, info *activity.Info) (s retry.State, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Next.HasHeartbeatDetails(ctx) {
		if err := h.Next.GetHeartbeatDetails(ctx, &h.now); err != nil || h.now.State == nil {
			h.foreign, h.now = true, stored{Details: 1} // of a worker without a policy; more cannot be told
		}
	}
	h.had = h.now.Details
	if h.now.State != nil {
		s = *h.now.State
	} else if info.Attempt > 1 {
		s.First = info.ScheduledTime
	}
	lost = max(int(info.Attempt)-1-h.now.Attempt, 0)
	now := s
	now.Failures += lost
	h.now = stored{State: &now, Attempt: int(info.Attempt) - 1, Details: h.had}
	raw, into := make([]converter.RawValue, h.had), make([]any, h.had)
	for i := range raw {
		into[i] = &raw[i]
	}
	if h.GetHeartbeatDetails(ctx, into...) == nil {
		for _, r := range raw {
			h.details = append(h.details, r)
		}
	}
	return s, lost
}

// store records the State after the attempt, to which the lost ones are still to be added.
func (h *heartbeats) store(ctx context.Context, s retry.State, lost int) {
	h.mu.Lock()
	h.now.State, h.now.Attempt = &s, h.now.Attempt+1-lost
	details := h.details
	h.mu.Unlock()
	h.RecordHeartbeat(context.WithoutCancel(ctx), details...)
}

// RecordHeartbeat implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now.State == nil { // a local activity
		h.Next.RecordHeartbeat(ctx, details...)
		return
	}
	h.details, h.now.Details = slices.Clone(details), len(details)
	h.Next.RecordHeartbeat(ctx, append([]any{h.now}, details...)...)
}

// HasHeartbeatDetails implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) HasHeartbeatDetails(context.Context) bool { return h.had > 0 }

// GetHeartbeatDetails implements [interceptor.ActivityOutboundInterceptor].
func (h *heartbeats) GetHeartbeatDetails(ctx context.Context, into ...any) error {
	if h.had == 0 {
		return temporal.ErrNoData
	}
	if !h.foreign {
		into = append([]any{new(converter.RawValue)}, into...)
	}
	return h.Next.GetHeartbeatDetails(ctx, into...)
}

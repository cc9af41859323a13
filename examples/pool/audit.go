package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// newAudit returns the audit log: one line of JSON for every attempt of every
// node, successes too.
func newAudit(w io.Writer) retry.Observer {
	json := slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: durationsAsText})
	return retryslog.New(slog.New(withNode{json}), &retryslog.Options{Succeeded: slog.LevelInfo})
}

func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// withNode adds the name of the node, which is in the context of the task.
type withNode struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h withNode) Handle(ctx context.Context, r slog.Record) error {
	if n, ok := ctx.Value(nodeKey{}).(*Node); ok {
		r.AddAttrs(slog.String("node", n.Name))
	}
	return h.Handler.Handle(ctx, r)
}

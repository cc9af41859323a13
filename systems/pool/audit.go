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
	return retryslog.New(slog.New(json), &retryslog.Options{Succeeded: slog.LevelInfo, Attrs: nodeOf})
}

func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// nodeOf returns the name of the node, which is in the context of the task.
func nodeOf(ctx context.Context) []slog.Attr {
	if n, ok := ctx.Value(nodeKey{}).(*Node); ok {
		return []slog.Attr{slog.String("node", n.Name)}
	}
	return nil
}

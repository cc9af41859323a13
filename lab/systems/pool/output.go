package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// lines writes whole lines, each after the name of a node, so that lines of nodes that run at once do
// not mix: a line is one Write to out, which takes several at once, as an os.File does.
type lines struct {
	out  io.Writer
	node string
	rest []byte // of a line that has not ended yet
	kept []byte // what was written, as much as may fill the memory
}

const (
	longestLine = 64 << 10 // longer ones are broken
	mostKept    = 1 << 20
)

func (l *lines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p[:min(len(p), mostKept-len(l.kept))]...)
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok && len(line) < longestLine {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(l.out, "%-10s | %s\n", l.node, line); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}

// end writes a last line that has no end.
func (l *lines) end() {
	if len(l.rest) > 0 {
		fmt.Fprintf(l.out, "%-10s | %s\n", l.node, l.rest)
		l.rest = nil
	}
}

// newAudit returns the audit log: one line of JSON for every attempt of every
// node, successes too.
func newAudit(w io.Writer) *retry.Observer {
	json := slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: durationsAsText})
	node := func(ctx context.Context) []slog.Attr {
		return []slog.Attr{slog.String("node", ctx.Value(nodeKey{}).(*Node).Name)}
	}
	return retryslog.New(slog.New(json), &retryslog.Options{Succeeded: slog.LevelInfo, Attrs: node})
}

func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

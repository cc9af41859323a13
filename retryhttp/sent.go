package retryhttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// sent watches whether anything of a request was written, whether its body could be read,
// and whether an answer began.
type sent struct {
	once bool // the request is not idempotent, so what was written matters

	asked, got, wrote, broken atomic.Bool
	answer
}

// nothing reports whether it is certain that nothing the server could act on was
// written. A transport that calls no hook proves nothing, unless it is net/http's, which
// calls one whenever it wants a connection. An interrupted attempt with a connection
// proves nothing either, because HTTP/2 may then go on writing. The hook for the first
// encoded header field counts, because HTTP/2 calls WroteHeaders only after it has
// written them.
func (s *sent) nothing(interrupted, tells bool) bool {
	return s != nil && s.once && (tells || s.asked.Load()) && !s.wrote.Load() && (!interrupted || !s.got.Load())
}

// classify is classifyAttempt for an attempt that is watched. A failed dial proves nothing
// about the attempt, which may have had other steps: the hooks decide.
func (s *sent) classify(err error) retry.Verdict {
	v := classifyAttempt(err)
	v.NotApplied = v.NotApplied && !dialed(err)
	return v
}

// denies reports whether the server may have acted, whatever the policy's Classifier says
// of err: the request's body could not be read, or the dial that failed came after the
// first byte.
func (s *sent) denies(err error) bool {
	return s != nil && s.once && (s.broken.Load() || s.wrote.Load() && dialed(err))
}

// dialed reports whether a dial or a lookup has failed somewhere in the tree of err.
func dialed(err error) bool {
	return errtree.Any(err, func(node error) bool {
		switch e := node.(type) { //nolint:errorlint // every node is asked
		case *net.DNSError:
			return true
		case *net.OpError:
			return e != nil && e.Op == "dial"
		default:
			return false
		}
	})
}

// body returns a body that watches whether it can be read.
func (s *sent) body(body io.ReadCloser) io.ReadCloser {
	if s == nil || !s.once || body == nil || body == http.NoBody {
		return body
	}
	return watched{body, s}
}

type watched struct {
	io.ReadCloser
	by *sent
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.by.broken.Store(true)
	}
	return n, err
}

func (s *sent) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			s.got.Store(true)
			s.reused.Store(info.Reused)
		},
		WroteHeaderField: func(name string, _ []string) {
			s.wrote.Store(true)
			if strings.HasPrefix(name, ":") {
				s.http2.Store(true)
			}
		},
		GotFirstResponseByte: s.begin,
	})
}

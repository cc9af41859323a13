package known

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// Traits are what an error says about the errors that it wraps, and about how far its
// own fact can be trusted.
type Traits uint8

// The traits.
const (
	// Weak says that the fact comes from Timeout, Temporary or the like. It holds
	// only if no inner error names its cause.
	Weak Traits = 1 << iota

	// Unsent says that the inner errors happened before anything was sent.
	Unsent

	// Exchanging says that the inner errors happened while something was sent or
	// received. Then no inner error can be Unsent.
	Exchanging

	// Network says that an inner io.EOF is a lost connection.
	Network

	// Dialing and Sending say that a dial or the sending of a request failed.
	// They decide only if no error says why it failed.
	Dialing
	Sending
)

// Has reports whether all traits of u are set.
func (t Traits) Has(u Traits) bool { return t&u == u }

func (t Traits) with(u Traits, so bool) Traits {
	if so {
		t |= u
	}
	return t
}

// Node returns what a single error says by its value, type or methods; the errors that
// it wraps are not asked. outer are the traits of the errors around it, and hinted says
// that one of them has a server's hint.
func Node(err error, outer Traits, hinted bool) (Fact, Traits) {
	if Mute(err) {
		if err == io.EOF && outer.Has(Network) {
			return Transient("eof"), 0
		}
		if f := sentinel(err); f.Class != Unknown {
			return f, 0
		}
		return ofText(err), 0
	}
	return speaking(err, outer, hinted)
}

// speaking is Node for an error that has more than a text. It is apart because most errors
// have only that, and their callers wait with the stack that this takes.
//
// Whatever an error has in its fields, and whatever its methods do, a panic is no opinion.
//
//go:noinline
func speaking(err error, outer Traits, hinted bool) (f Fact, t Traits) {
	defer silence()
	switch e := err.(type) {
	case *net.OpError:
		return noSocket(e), operation(e, outer)
	case *net.DNSError:
		f, t := lookup(e)
		return f, t.within(outer)
	case *url.Error:
		return address(e)
	}
	kind := reflect.TypeOf(err)
	if kind == wrapper || kind == joiner {
		return Fact{}, 0
	}
	if f := sentinel(err); f.Class != Unknown {
		return f, 0
	}
	if f := typed(err); f != (Fact{}) {
		return f, 0
	}
	s := shapeOf(kind)
	if s.wraps {
		return Fact{}, 0
	}
	var status int
	var after time.Duration
	if !s.silent {
		if f, status, after = methods(err); f.Class == Retryable && after <= 0 && s.limited.Class != Unknown {
			f, after = s.limited, clientOf(err, s).after
			f.Category = "rate_limited"
		}
	}
	if f == (Fact{}) {
		return ofClient(err, s, status, after, hinted)
	}
	return f.waiting(after), 0
}

// waiting returns f with the wait that the error itself asks for, if it does, rather than the
// one that its code usually means.
func (f Fact) waiting(own time.Duration) Fact {
	if own > 0 {
		f.After = own
	}
	return f
}

// Mute reports whether an error has only a text.
func Mute(err error) bool { return reflect.TypeOf(err) == plain }

// plain is the type of the errors of errors.New. wrapper and joiner are the types
// of the errors of fmt.Errorf, which only wrap.
var (
	plain   = reflect.TypeOf(io.EOF)
	wrapper = reflect.TypeOf(fmt.Errorf("%w", io.EOF))
	joiner  = reflect.TypeOf(fmt.Errorf("%w %w", io.EOF, io.EOF))
)

// The Timeout and Temporary methods of the errors of net, net/url and os only ask the wrapped
// error, so they are not called.

// noSocket classifies a dial to a Unix socket that is not there. Its server has not started
// yet, which a dial by TCP calls refused.
func noSocket(e *net.OpError) Fact {
	if e != nil && e.Op == "dial" && strings.HasPrefix(e.Net, "unix") && errtree.Is(e.Err, fs.ErrNotExist) {
		return Transient("no_socket")
	}
	return Fact{}
}

func operation(e *net.OpError, outer Traits) Traits {
	switch {
	case e == nil:
		return 0
	case e.Op == "dial":
		return (Network | Unsent | Dialing).within(outer)
	case (e.Op == "read" || e.Op == "write") && !outer.Has(Unsent):
		return Network | Exchanging
	default:
		return Network
	}
}

// within returns the traits of an error inside errors with the traits outer: the step of
// the outermost error counts.
func (t Traits) within(outer Traits) Traits {
	if outer.Has(Exchanging) {
		t &^= Unsent
	}
	return t
}

// lookup is weak about a lookup that may succeed later, because a canceled lookup looks
// the same and wraps the cancellation.
func lookup(e *net.DNSError) (Fact, Traits) {
	switch {
	case e == nil:
		return Fact{}, 0
	case e.IsTimeout || e.IsTemporary:
		return Transient("dns"), Unsent | Weak
	case e.IsNotFound:
		return Permanent("dns_not_found"), Unsent
	default:
		return Fact{}, Unsent
	}
}

func address(e *url.Error) (Fact, Traits) {
	switch {
	case e == nil:
		return Fact{}, 0
	case e.Op == "parse":
		return Permanent("invalid"), Network
	default:
		return Fact{}, Network
	}
}

// sentinels has the error variables of the standard library with a known class.
var sentinels = []struct {
	err  error
	fact Fact
}{
	{context.Canceled, Permanent("canceled")},
	{fs.ErrNotExist, Permanent("not_found")},
	{fs.ErrPermission, Permanent("permission")},
	{fs.ErrExist, Permanent("exists")},
	{fs.ErrInvalid, Permanent("invalid")},
	{fs.ErrClosed, Permanent("closed")},
	{errors.ErrUnsupported, Permanent("unsupported")},
	{io.ErrUnexpectedEOF, Transient("eof")},
	{io.ErrClosedPipe, Transient("closed")},
	{net.ErrClosed, Transient("closed")},
}

// sentinel classifies the error variables of the standard library.
func sentinel(err error) Fact {
	for i := range sentinels {
		// Sentinels are pointers, so this comparison cannot panic.
		if s := &sentinels[i]; err == s.err {
			return s.fact
		}
	}
	return Fact{}
}

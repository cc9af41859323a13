package retry

import (
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Classify returns the verdict that p acts on. It asks in this order: a mark of this
// package, p.Classifier, and the rest of [Classify]. The NotApplied of [Classify]
// does not count: see [Policy].NonIdempotent.
func (p *Policy) Classify(err error) Verdict {
	return verdictOf(p.orZero().classify(err, false, nil, Unknown))
}

// classify is Classify for a Call: timedOut says that the attempt's own timeout has
// ended the attempt while the caller's context was not done; the error may not show
// this. protocol, if not nil, takes the place of [Classify]; errors that it
// leaves Unknown become unknown.
func (p *Policy) classify(err error, timedOut bool, protocol Classifier, unknown Class) known.Fact {
	var said known.Fact
	found := nothing
	if !known.Mute(err) {
		if said, found = explicit(err); found == mark {
			return said
		}
	}
	f := said
	var v Verdict // only one: two would be on the stack of every caller that waits
	if p.Classifier != nil {
		v = p.Classifier(err)
		if f := v.fact(); f.Class != known.Unknown || f != (known.Fact{}) {
			f.Flags |= said.Flags & known.Progress
			return f
		}
	}
	switch {
	case timedOut:
		f = known.Transient("timeout")
	case protocol != nil:
		v = protocol(err)
		f = v.fact()
	case found != gaveUp:
		f = inspect(err, nil)
		f.Flags &^= known.NotApplied // true of the step that failed, not of all that fn has done
	}
	if f.Class == known.Unknown && f.After <= 0 {
		f.Class = known.Class(unknown)
	}
	f.Flags |= said.Flags & known.Progress
	return f
}

// Classify is the classification of a [Policy] without a Classifier. The first
// of these that has an opinion decides:
//
//  1. A mark of this package: [Mark], [MarkFinal], [MarkRetryable],
//     [MarkRateLimited]. The outermost counts.
//  2. An [*Error] of an inner policy. It is Final, category "gave_up", so that
//     nested policies do not multiply their attempts. But it is Retryable if the
//     inner context or Timeout ended, and RateLimited with its hint if the hint was
//     too long to wait for. To [Policy.Next] and a job of package retryjob, which wait on
//     another scale of time, it counts as the failure that was given up.
//  3. The errors themselves: by type (errno, net, DNS, TLS, x509, HTTP/2,
//     encoding and file errors of the standard library), by method
//     (RetryAfter, Retryable, HTTPStatusCode, SQLState, Timeout, and the like), and
//     by code (PostgreSQL, MySQL, SQLite and SQL Server, gRPC, Connect, Kubernetes, AMQP,
//     Kafka and LDAP errors, replies of mail servers, and the HTTP status in a field
//     StatusCode, HTTPStatusCode or Status, or where a client that is known has it). An error with an
//     HTTP status and the headers of a response, in a field or method Header or in a
//     Response, has the hint of these headers; a Code, Type, ErrorCode or Reason that says
//     more than the status decides, such as insufficient_quota. Every error of the tree
//     is asked. On a chain the outermost opinion counts, but an error that names its cause
//     counts before one that only says Timeout or Temporary. Of joined errors the more
//     retryable opinion counts, in any order.
//
// NotApplied is right for an operation of one step. It is set if a dial or a lookup
// failed, or if the server says that it did nothing, but not for an errno alone.
//
// If none of the three has an opinion, Classify abstains. context.Canceled is Final and
// context.DeadlineExceeded Retryable: a policy checks its caller's context before it
// classifies, so these errors come from another context. Text is never searched, but a few
// variables of errors.New are known by the whole of it, such as sql.ErrNoRows, and so is a status
// line, such as "404 Not Found". Every other "not found" that has only a text, such as
// buntdb.ErrNotFound, stays Unknown and is retried, unless [On] or a mark says Final. A method that
// panics gives no opinion, and a tree of more than 1000 errors is Unknown. Classify(nil) abstains.
//
// Some errors are Final because they are mistakes more often than not: a name that does not
// exist, a certificate that is not valid yet. docs/recipes.md, "What is Final, and only not
// there yet", shows how to wait for them.
//
// Packages retryhttp, retrysql and retryexec classify the errors that only
// net/http, database/sql or os/exec can tell apart, or only a part of a text.
func Classify(err error) Verdict { return verdictOf(classify(err, nil)) }

// classify is Classify with also, which may be nil, asked about single errors.
func classify(err error, also Classifier) known.Fact {
	f, found := explicit(err)
	if found == nothing {
		progress := f.Flags & known.Progress
		f = inspect(err, also)
		f.Flags |= progress
	}
	return f
}

// finding is a result of explicit.
type finding uint8

const (
	nothing finding = iota
	gaveUp          // an *Error of an inner policy
	mark
)

// explicit looks for marks and inner *Errors, and does not look inside them. Marks
// win over *Errors beside them. A mark of progress is not the whole answer: it is in
// the Fact, whatever else is found.
func explicit(err error) (known.Fact, finding) {
	switch e := err.(type) {
	case *marked:
		return e.fact, mark
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		nodes := errtree.Nodes(errtree.MaxNodes)
		return explicitIn(err, &nodes)
	default:
		return known.Fact{}, nothing
	}
}

func explicitIn(err error, nodes *errtree.Nodes) (f known.Fact, found finding) {
	var progress known.Fact
	for nodes.Take() {
		switch e := err.(type) {
		case *progressed:
			progress.Flags, err = known.Progress, e.err
			continue
		case *marked:
			f, found = e.fact, mark
		case *Error:
			if e != nil {
				f, found = e.fact(), gaveUp
			}
		case interface{ Unwrap() error }:
			err, _ = errtree.Try(e.Unwrap)
			continue
		case interface{ Unwrap() []error }:
			legs, _ := errtree.Try(e.Unwrap)
			f, found = explicitAmong(legs, nodes)
		}
		f.Flags |= progress.Flags
		return f, found
	}
	return progress, nothing
}

func explicitAmong(legs []error, nodes *errtree.Nodes) (f known.Fact, found finding) {
	for _, leg := range legs {
		g, ok := explicitIn(leg, nodes)
		progress := (f.Flags | g.Flags) & known.Progress
		switch {
		case ok > found:
			f, found = g, ok
		case ok == found && ok != nothing:
			f = f.Merge(g, true)
		}
		f.Flags |= progress
		if nodes.Exceeded() { // the other legs may be a million
			return known.Fact{}, nothing
		}
	}
	return f, found
}

// opinion collects what the errors of a chain say, from the outermost to the
// innermost.
type opinion struct {
	fact known.Fact

	// weak says that fact holds only if no inner error names its cause.
	weak bool

	// traits are the traits of the errors asked so far, except Weak.
	traits known.Traits

	// also, if not nil, is asked first about every error.
	also Classifier
}

// inspect asks every error of the tree, after also where there is one.
func inspect(err error, also Classifier) known.Fact {
	o := opinion{also: also}
	nodes := errtree.Nodes(errtree.MaxNodes)
	if o.inspect(err, &nodes); nodes.Exceeded() {
		return known.Fact{}
	}
	return o.result()
}

func (o *opinion) inspect(err error, nodes *errtree.Nodes) {
	for err != nil && nodes.Take() {
		mute := known.Mute(err) // wraps nothing
		if o.also == nil || !o.ask(err) {
			f, traits := known.Permanent("panic"), known.Traits(0)
			if _, panicked := err.(*PanicError); !panicked {
				f, traits = known.Node(err, o.traits, o.fact.After > 0)
			}
			o.traits |= traits &^ known.Weak
			o.hear(f, traits.Has(known.Weak))
		}
		if mute {
			break
		}
		one, several := errtree.Unwrap(err)
		if several != nil {
			o.inspectAmong(several, nodes)
			break
		}
		err = one
	}
	if o.fact == (known.Fact{}) {
		o.guess()
	}
}

// ask hears the opinion of also about this one error. It is apart because a Verdict is
// large, and would be on the stack of every caller that waits.
//
//go:noinline
func (o *opinion) ask(err error) bool {
	v := o.also(err)
	if v == (Verdict{}) {
		return false
	}
	o.hear(v.fact(), false)
	return true
}

// guess sets the opinion by the step that failed, if no error says why.
func (o *opinion) guess() {
	switch {
	case o.traits.Has(known.Dialing):
		o.hear(known.Transient("dial"), true) // and Unsent
	case o.traits.Has(known.Sending):
		o.hear(known.Transient("conn"), true)
	}
}

func (o *opinion) inspectAmong(legs []error, nodes *errtree.Nodes) {
	var all opinion
	for _, leg := range legs {
		one := opinion{traits: o.traits & (known.Unsent | known.Exchanging | known.Network), also: o.also}
		if one.inspect(leg, nodes); nodes.Exceeded() {
			return // the other legs may be a million, and there is no result
		}
		f := one.result()
		switch {
		case f == (known.Fact{}):
		case all.fact == (known.Fact{}):
			all = opinion{fact: f, weak: one.weak}
		default:
			all = opinion{fact: all.fact.Merge(f, false), weak: all.weak && one.weak}
		}
	}
	o.hear(all.fact, all.weak)
}

// hear adds the opinion of an inner error.
func (o *opinion) hear(f known.Fact, weak bool) {
	after := o.fact.After
	if after <= 0 {
		after = f.After
	}
	decided := o.fact.Class != known.Unknown && !o.weak
	if !decided && f.Class != known.Unknown && (!weak || o.fact.Class == known.Unknown) {
		o.fact, o.weak = f, weak
	} else if o.fact == (known.Fact{}) {
		o.fact.Category = f.Category // an opinion too: unknown, but named
	}
	o.fact.After = after
}

// result returns the opinion as a Fact.
func (o *opinion) result() known.Fact {
	f := o.fact.Normal()
	if f.Class != known.Unknown {
		f.Flags = f.Flags.With(known.NotApplied, o.traits.Has(known.Unsent))
	}
	if f.Class == known.Final {
		f.After = 0
	}
	return f
}

// Classifier gives its opinion about an error, or abstains with the zero
// [Verdict]. It must be safe for concurrent use where the [Policy] is shared.
type Classifier func(error) Verdict

// Chain returns a Classifier that asks cs in order; the first opinion wins. Nil
// Classifiers are skipped.
func Chain(cs ...Classifier) Classifier {
	return func(err error) Verdict {
		for _, c := range cs {
			if c == nil {
				continue
			}
			if v := c(err); v != (Verdict{}) {
				return v
			}
		}
		return Verdict{}
	}
}

// On returns a Classifier that gives class c to errors in which [errors.Is]
// finds one of the targets:
//
//	retry.On(retry.Final, sql.ErrNoRows, ErrNotFound)
func On(c Class, targets ...error) Classifier {
	opinion := Verdict{Class: c}
	if c == Unknown {
		opinion.Category = c.String() // the zero Verdict would abstain
	}
	return func(err error) Verdict {
		for _, target := range targets {
			if errtree.Is(err, target) {
				return opinion
			}
		}
		return Verdict{}
	}
}

// Extend returns [Classify] with the knowledge of one more Classifier. node is
// asked about every single error of the tree, before Classify looks at that error.
// The opinion of node counts as if the error itself had said it: an outer error
// counts before the errors that it wraps, joined errors count in any order, and a
// mark overrules them all. So node should look at the type, value or text of the
// given error, and not at the errors that it wraps:
//
//	var classify = retry.Extend(func(err error) retry.Verdict {
//		if e, ok := err.(*MyError); ok && e.Code == Busy {
//			return retry.Verdict{Class: retry.Retryable, Category: "busy"}
//		}
//		return retry.Verdict{}
//	})
//
// A nil node gives no opinion.
func Extend(node Classifier) Classifier {
	return func(err error) Verdict { return verdictOf(classify(err, node)) }
}

// ThroughGiveUp is a Classifier for a call around a policy that waits on another scale of
// time: their attempts multiply. It classifies the error that made the inner policy give up, where
// [Classify] would say Final, "gave_up". An unknown error is retried. The verdict has the
// NotApplied of the [*Error]. ThroughGiveUp abstains on errors without an [*Error] in them.
// [Policy.Next] and package retryjob need it not: they look through by themselves.
func ThroughGiveUp(err error) Verdict {
	nodes := errtree.Nodes(errtree.MaxNodes)
	f, _ := throughGiveUp(err, &nodes, func(failure error) known.Fact {
		f := classify(failure, nil)
		if f == (known.Fact{}) {
			f.Category = categoryGaveUp // an opinion: Unknown, and so retried
		}
		return f
	})
	if nodes.Exceeded() {
		return Verdict{}
	}
	return verdictOf(f)
}

// classifyJob is classify for a job whose State is kept elsewhere. The *Error of a policy
// inside is judged by the failure that was given up, whoever called it a give-up: the job
// waits on another scale of time, so the attempts do not multiply in the way of nested loops.
func (p *Policy) classifyJob(err error, timedOut bool, protocol Classifier, unknown Class) known.Fact {
	f := p.classify(err, timedOut, protocol, unknown)
	if f.Category != categoryGaveUp {
		return f
	}
	if _, found := explicit(err); found == mark {
		return f
	}
	nodes := errtree.Nodes(errtree.MaxNodes)
	g, found := throughGiveUp(err, &nodes, func(failure error) known.Fact {
		return p.classify(failure, timedOut, protocol, unknown)
	})
	if !found || nodes.Exceeded() {
		return f
	}
	g.Flags |= f.Flags & known.Progress
	return g
}

// throughGiveUp looks for *Errors, and for *Errors in their last errors, and asks judge about
// the failures that these gave up. It reports whether there was one.
func throughGiveUp(err error, nodes *errtree.Nodes, judge func(error) known.Fact) (f known.Fact, found bool) {
	for err != nil && nodes.Take() {
		if e, ok := err.(*Error); ok && e != nil {
			return e.cause(nodes, judge), true
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			g, ok := throughGiveUp(leg, nodes, judge)
			if nodes.Exceeded() {
				return known.Fact{}, false // the other legs may be a million
			}
			switch {
			case ok && found:
				f = f.Merge(g, false)
			case ok:
				f, found = g, true
			}
		}
		err = one
	}
	return f, found
}

// cause judges the failure that e gave up.
func (e *Error) cause(nodes *errtree.Nodes, judge func(error) known.Fact) known.Fact {
	f := e.fact()
	if e.Err == nil {
		return f
	}
	g, found := explicit(e.Err)
	if found != mark {
		var nested bool
		if g, nested = throughGiveUp(e.Err, nodes, judge); !nested {
			g = judge(e.Err)
		}
	}
	// A context that ended and a server that asks to wait do not make a job Final, whatever
	// the failure looks like then.
	if found == mark || f.Class == known.Final || g.Class != known.Final && g.Class != known.Unknown {
		f = g
	}
	if f.Class != known.Final {
		f.After = max(f.After, e.RetryAfter)
	}
	if f.Class == known.Unknown && f.After > 0 {
		f.Class = known.Retryable // the wait may be that of a Budget
	}
	f.Flags &^= known.NotApplied // of the last attempt; it says nothing about those before it
	f.Flags = f.Flags.With(known.NotApplied, e.NotApplied)
	return f
}

const categoryGaveUp = "gave_up"

// fact classifies the error of an inner policy for an outer one.
func (e *Error) fact() (f known.Fact) {
	switch e.Stop {
	case StopDeadline, StopCanceled, StopTimeout:
		f = known.Transient(categoryGaveUp)
	case StopRetryAfter:
		f = known.Throttled(categoryGaveUp)
		f.After = max(e.RetryAfter, 0)
	default:
		f = known.Permanent(categoryGaveUp)
	}
	if e.Attempts == 0 && e.Err == nil {
		f.Flags |= known.NotApplied
	}
	return f
}

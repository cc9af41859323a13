package retry

import (
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// opinion collects what the errors of a chain say, from the outermost to the
// innermost.
type opinion struct {
	fact known.Fact

	// weak says that fact holds only if no inner error names its cause.
	weak bool

	// traits are those of the errors asked so far, but for Weak.
	traits known.Traits

	// also, if not nil, is asked first about every error.
	also Classifier
}

// inspect asks every error of the tree, after also where there is one.
func inspect(err error, also Classifier) known.Fact {
	if also == nil && known.Mute(err) {
		f, _ := known.Node(err, 0, false) // the shortcut for most errors
		return f
	}
	o := opinion{also: also}
	nodes := errtree.Nodes(errtree.MaxNodes)
	if o.inspect(err, &nodes); nodes.Exceeded() {
		return known.Fact{}
	}
	return o.result()
}

func (o *opinion) inspect(err error, nodes *errtree.Nodes) {
	for err != nil && nodes.Take() {
		o.ask(err)
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
		one.inspect(leg, nodes)
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
	after := orDefault(o.fact.After, f.After)
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

// ask adds the opinion of this one error.
func (o *opinion) ask(err error) {
	if o.also != nil {
		if v := o.also(err); v != (Verdict{}) {
			o.hear(v.fact(), false)
			return
		}
	}
	f, traits := known.Node(err, o.traits, o.fact.After > 0)
	o.traits |= traits &^ known.Weak
	o.hear(f, traits.Has(known.Weak))
}

package known

import "github.com/seed-5ff3c98e/retry/internal/errtree"

// opinion collects what the errors of a chain say, from the outermost to the
// innermost.
type opinion struct {
	fact Fact

	// weak says that fact holds only if no inner error names its cause.
	weak bool

	// traits are the traits of the errors asked so far, except Weak.
	traits Traits

	own func(error) (Fact, bool)
}

// Tree returns what the errors of a tree say; see retry.Classify. own is asked first about every
// error, and returns false if it has no opinion.
func Tree(err error, own func(error) (Fact, bool)) Fact {
	o := opinion{own: own}
	nodes := errtree.Nodes(errtree.MaxNodes)
	if o.inspect(err, &nodes); nodes.Exceeded() {
		return Fact{}
	}
	return o.result()
}

func (o *opinion) inspect(err error, nodes *errtree.Nodes) {
	for err != nil && nodes.Take() {
		var one error
		var several []error
		if !Mute(err) {
			one, several = errtree.Unwrap(err)
		}
		if f, ok := o.own(err); ok {
			o.hear(f, false)
		} else {
			f, traits := Node(err, o.traits, o.fact.After > 0)
			o.traits |= traits &^ Weak
			o.hear(f, traits.Has(Weak))
		}
		if several != nil {
			o.inspectAmong(several, nodes)
			break
		}
		err = one
	}
	if o.fact == (Fact{}) {
		o.guess()
	}
}

// guess sets the opinion by the step that failed, if no error says why.
func (o *opinion) guess() {
	switch {
	case o.traits.Has(Dialing):
		o.hear(Transient("dial"), true) // and Unsent
	case o.traits.Has(Sending):
		o.hear(Transient("conn"), true)
	}
}

func (o *opinion) inspectAmong(legs []error, nodes *errtree.Nodes) {
	var all opinion
	for _, leg := range legs {
		one := opinion{traits: o.traits & (Unsent | Exchanging | Network), own: o.own}
		if one.inspect(leg, nodes); nodes.Exceeded() {
			return // the other legs may be a million, and there is no result
		}
		f := one.result()
		switch {
		case f == (Fact{}):
		case all.fact == (Fact{}):
			all = opinion{fact: f, weak: one.weak}
		default:
			all = opinion{fact: all.fact.Merge(f, false), weak: all.weak && one.weak}
		}
	}
	o.hear(all.fact, all.weak)
}

// hear adds the opinion of an inner error.
func (o *opinion) hear(f Fact, weak bool) {
	after := o.fact.After
	if after <= 0 {
		after = f.After
	}
	decided := o.fact.Class != Unknown && !o.weak
	if !decided && f.Class != Unknown && (!weak || o.fact.Class == Unknown) {
		o.fact, o.weak = f, weak
	} else if o.fact == (Fact{}) {
		o.fact.Category = f.Category // an opinion too: unknown, but named
	}
	o.fact.After = after
}

// result returns the opinion as a Fact.
func (o *opinion) result() Fact {
	f := o.fact.Normal()
	if f.Class != Unknown {
		f.Flags = f.Flags.With(NotApplied, o.traits.Has(Unsent))
	}
	if f.Class == Final {
		f.After = 0
	}
	return f
}

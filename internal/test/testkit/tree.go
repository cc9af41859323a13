package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-5ff3c98e/retry"
)

// Kinds are the errors that trees are made of, besides joins and errors that are only
// a text.
type Kinds struct {
	Leaves []func(detail byte) error              // without a cause; they may be nil
	Wraps  []func(detail byte, cause error) error // with one cause, which may be nil
}

// Tree is a tree of errors that can be built several times.
type Tree struct {
	kinds *Kinds
	root  *node
}

// node is a node of a tree: two bytes choose what it is, and its text is used if that
// is a text.
type node struct {
	kind, detail byte
	text         string
	legs         []*node
}

// What the first byte of a node stands for. Smaller ones are leaves.
const (
	texts = 76
	wraps = 80
	joins = 192
)

// maxNodes bounds a tree, far below the number of errors that retry.Classify looks at.
const maxNodes = 50

// Tree reads a tree from bytes. All bytes are a tree.
func (k *Kinds) Tree(data []byte) Tree {
	left := maxNodes
	return Tree{k, read(&data, &left)}
}

func read(data *[]byte, left *int) *node {
	*left--
	if len(*data) < 2 || *left <= 0 {
		return &node{}
	}
	n := &node{kind: (*data)[0], detail: (*data)[1]}
	*data = (*data)[2:]
	legs := 0
	switch {
	case n.kind >= joins:
		legs = int(n.detail % 5)
	case n.kind >= wraps:
		legs = 1
	case n.kind >= texts:
		size := min(int(n.detail), len(*data))
		n.text = string((*data)[:size])
		*data = (*data)[size:]
	}
	for range legs {
		n.legs = append(n.legs, read(data, left))
	}
	return n
}

// Err returns the tree, which may be nil.
func (t Tree) Err() error { return t.build(t.root, func([]error) {}) }

// Reordered returns the tree with the legs of its joins in other orders, by the name of
// the order.
func (t Tree) Reordered() map[string]error {
	return map[string]error{
		"reversed": t.build(t.root, slices.Reverse[[]error]),
		"mixed": t.build(t.root, func(legs []error) {
			rand.Shuffle(len(legs), func(i, j int) { legs[i], legs[j] = legs[j], legs[i] })
		}),
	}
}

func (t Tree) build(n *node, arrange func([]error)) error {
	var legs []error
	for _, leg := range n.legs {
		legs = append(legs, t.build(leg, arrange))
	}
	switch {
	case n.kind >= joins:
		arrange(legs)
		return errors.Join(legs...)
	case n.kind >= wraps:
		return t.kinds.Wraps[int(n.kind)%len(t.kinds.Wraps)](n.detail, legs[0])
	case n.kind >= texts:
		return errors.New(n.text)
	default:
		return t.kinds.Leaves[int(n.kind)%len(t.kinds.Leaves)](n.detail)
	}
}

var errUnknown = errors.New("nobody knows this")

// Check checks that a classification of the tree does not depend on the order in joins,
// on repetition, or on errors beside it that nobody knows; that it succumbs to
// retry.MarkFinal; that it is repeatable; and that its hint is not negative.
func (t Tree) Check(tb testing.TB, classify func(error) retry.Verdict) {
	tb.Helper()
	err := t.Err()
	want := classify(err)
	is := func(how string, want retry.Verdict, other error) {
		tb.Helper()
		if got := classify(other); got != want {
			tb.Errorf("%s: %+v, not %+v:\n%#v\n%#v", how, got, want, err, other)
		}
	}
	if want.After < 0 {
		tb.Errorf("the hint is negative: %+v: %#v", want, err)
	}
	is("again", want, err)
	for order, other := range t.Reordered() {
		is(order, want, other)
	}
	if err == nil {
		is("nil", retry.Verdict{}, nil)
		return
	}
	is("twice", want, errors.Join(err, err))
	is("in company", want, errors.Join(nil, errUnknown, fmt.Errorf("x: %w", err)))
	is("marked", retry.Verdict{Class: retry.Final}, retry.MarkFinal(err))
}

// Random calls check with the bytes of random trees, always the same ones, until the
// test has failed: one counterexample is enough to read.
func Random(tb testing.TB, trees int, check func(data []byte)) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // chance, no secret
	for range trees {
		data := make([]byte, r.IntN(60))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if check(data); tb.Failed() {
			return
		}
	}
}

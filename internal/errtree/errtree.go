// Package errtree walks error trees without trusting the errors in them: it
// ignores a foreign method that panics, and stops in an endless tree.
package errtree

import (
	"net"
	"net/url"
)

// MaxNodes bounds the number of visited nodes of one tree. It ends an error
// chain that refers to itself.
const MaxNodes = 1000

// Nodes counts down the nodes of one tree that may still be visited.
type Nodes int

// Take takes one node, or reports that there is none left.
func (n *Nodes) Take() bool {
	*n--
	return *n >= 0
}

// Exceeded reports whether Take has failed. Then not all nodes were visited,
// and which ones depends on the order.
func (n *Nodes) Exceeded() bool { return *n < 0 }

// Unwrap returns the errors that err wraps: one, several, or none.
func Unwrap(err error) (one error, several []error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		one, _ = Try(e.Unwrap)
	case interface{ Unwrap() []error }:
		several, _ = Try(e.Unwrap)
	}
	return one, several
}

// Try calls a method of a foreign error. ok is false if it panicked, as on a
// typed nil pointer.
func Try[T any](method func() T) (result T, ok bool) {
	defer func() {
		if !ok {
			_ = recover()
		}
	}()
	return method(), true
}

// Is reports whether err or an error that it wraps is target, as [errors.Is]
// does, but ends on every tree.
func Is(err, target error) bool {
	return Any(err, func(node error) bool { return Matches(node, target) })
}

// Any reports whether a node of the tree has a property. It ends on every tree.
func Any(err error, has func(node error) bool) bool {
	nodes := Nodes(MaxNodes)
	return some(err, has, &nodes)
}

func some(err error, has func(error) bool, nodes *Nodes) bool {
	for err != nil && nodes.Take() {
		if has(err) {
			return true
		}
		one, several := Unwrap(err)
		for _, leg := range several {
			if some(leg, has, nodes) {
				return true
			}
			if nodes.Exceeded() {
				return false // the other legs may be a million
			}
		}
		err = one
	}
	return false
}

// Matches reports whether this node alone is target: by equality, or because
// its Is method says so.
func Matches(node, target error) bool {
	if equal(node, target) {
		return true
	}
	e, ok := node.(interface{ Is(error) bool })
	if !ok {
		return false
	}
	yes, _ := Try(func() bool { return e.Is(target) })
	return yes
}

// equal compares under recover: errors of a type that is not comparable are not
// equal.
func equal(a, b error) bool {
	same, _ := Try(func() bool { return a == b })
	return same
}

// Ask returns the answer of the outermost error of a tree that has one. has returns how an error
// answers, or nil; if it is over the error, what is beneath is asked in its place. A method that
// panics does not answer.
func Ask(err error, has func(error) (answer func() bool, beneath error, over bool)) bool {
	nodes := Nodes(MaxNodes)
	yes, _ := ask(err, has, &nodes)
	return yes
}

func ask(err error, has func(error) (func() bool, error, bool), nodes *Nodes) (yes, answered bool) {
	for err != nil && nodes.Take() {
		answer, beneath, over := has(err)
		if over {
			err = beneath
			continue
		}
		if answer != nil && !passesOn(err) {
			if yes, answered = Try(answer); answered {
				return yes, true
			}
		}
		one, several := Unwrap(err)
		for _, leg := range several {
			if yes, answered = ask(leg, has, nodes); answered || nodes.Exceeded() {
				return yes, answered
			}
		}
		err = one
	}
	return false, false
}

// passesOn reports whether err only passes the question on to the error that it wraps. Such an
// error is not asked: in a tree that refers to itself, it would ask the error that is asking.
func passesOn(err error) bool {
	switch err.(type) {
	case *url.Error, *net.OpError:
		return true
	default:
		return false
	}
}

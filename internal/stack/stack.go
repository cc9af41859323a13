// Package stack has the stack of a panic.
package stack

import (
	"bytes"
	"runtime/debug"
)

// OfPanic returns the stack of the panic that the caller, a deferred function, has
// recovered: the function that panicked is the first one, and those that recovered are left
// out. Without a panic it is the whole stack, as [debug.Stack] returns it.
func OfPanic() []byte {
	all := debug.Stack()
	head, frames, _ := bytes.Cut(all, []byte("\n"))
	at := bytes.Index(frames, []byte("\npanic("))
	if at < 0 {
		return all
	}
	frames = frames[at+1:]
	for range 2 { // the call of panic, and where it stands
		_, rest, found := bytes.Cut(frames, []byte("\n"))
		if !found {
			return all
		}
		frames = rest
	}
	return append(append(head, '\n'), frames...)
}

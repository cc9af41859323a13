// Package done asks a context whether it has ended, in the way that drivers have
// to: through Done, because the contexts of some mock clocks race in Err.
package done

import "context"

// Is reports whether ctx has ended.
func Is(ctx context.Context) bool { return Closed(ctx.Done()) }

// Closed reports whether a receive from c would not block, as from the Done of a
// context that has ended. The Done of a context that never ends is nil, and is
// not asked.
func Closed(c <-chan struct{}) bool {
	if c == nil {
		return false
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

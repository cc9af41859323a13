package retrytable

import (
	"sync"
	"time"
)

// form is the statement for a group. PostgreSQL may not understand it, if a name that only
// this form uses is that of a column, for example. Then it is given up, and tried again in
// a while.
type form struct {
	mu    sync.Mutex
	until time.Time
	told  bool
}

// formRest is how long a form that was given up is not used.
const formRest = time.Minute

func (f *form) isRefused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.until)
}

// giveUp gives up the form, and reports whether that is to be told.
func (f *form) giveUp() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Now().Add(formRest)
	first, f.told = !f.told, true
	return first
}

// formTest finds out whether groups are refused for their form: all are, and each of their
// outcomes alone is not.
type formTest struct {
	err     error // of a group
	pair    int   // where a group of two was refused; -1 if none was
	stored  int   // how many of the pair were stored alone
	singles int   // how many outcomes were stored alone
}

// failed notes a group that was refused.
func (f *formTest) failed(from, to int, err error) {
	if f.pair = -1; formFault(err) {
		f.err, f.stored = err, 0
		if to-from == 2 {
			f.pair = from
		}
	}
}

// single notes an outcome that was tried alone.
func (f *formTest) single(at int, err error) {
	if err != nil {
		f.pair, f.singles = -1, -1<<30
		return
	}
	f.singles++
	if f.pair >= 0 && at-f.pair == f.stored {
		f.stored++
	}
}

// pairAtFault reports whether both of a pair were stored alone.
func (f *formTest) pairAtFault() bool { return f.pair >= 0 && f.stored == 2 }

// atFault reports whether all of a group were stored alone.
func (f *formTest) atFault(group int) bool { return f.err != nil && f.singles == group }

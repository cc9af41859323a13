// Package sift finds those of several things that are refused, when only a try says which.
package sift

// Answer is what has become of things that were tried together.
type Answer int

// The answers.
const (
	Done    Answer = iota // nothing is left to do about them
	Refused               // at least one of them is refused
	Stop                  // more tries are of no use
)

// MostRefused is how many things in a row are refused alone before Sift leaves some out.
const MostRefused = 16

// Sift finds those of n things that are refused, after try has refused all of them together.
// It tries them in their order. Each thing that is refused alone costs one try; the things
// between them are tried in groups that grow. After MostRefused refusals in a row, Sift
// leaves things out, twice as many each time but never the last one: so it soon knows whether
// everything is refused. What it leaves out, or does not come to, is passed to skip.
func Sift(n int, try func(from, to int) Answer, skip func(from, to int)) {
	from, size, inRow, stride := 0, 1, 0, 1
	bad := n // a refused thing is before this one, if bad is after from
	for from < n {
		to := min(from+size, n)
		switch try(from, to) {
		case Done:
			from, size, inRow, stride = to, 2*size, 0, 1
			if from < bad { // half of the group that has the refused thing
				size = min(size, max(1, (bad-from)/2))
			}
		case Refused:
			if to-from > 1 {
				bad, size = to, (to-from)/2
				continue
			}
			from++
			bad = from
			if inRow++; inRow < MostRefused {
				continue
			}
			next := from + min(stride, (n-from)/2)
			skip(from, next)
			from, stride = next, 2*stride
		default:
			skip(from, n)
			return
		}
	}
}

package retrytable

// answer is what has become of things that were tried together.
type answer int

const (
	fine  answer = iota // nothing is left to do about them
	amiss               // one of them is at fault, or all are
	over                // to try more is of no use
)

// mostRefused is how many things in a row are refused alone before sift looks further behind.
const mostRefused = 16

// sift finds those of n things that are refused, which try has refused as a whole. It tries
// them in their order: each that is refused alone costs one try, and those between them are
// tried in groups that grow. If more than mostRefused in a row are refused, sift leaves some
// out, twice as many each time but not the last: so it soon knows whether everything is
// refused. What it has left out, or not come to, is passed to skip.
func sift(n int, try func(from, to int) answer, skip func(from, to int)) {
	from, size, inRow, stride := 0, 1, 0, 1
	bad := n // behind something that is refused, if that is further on
	for from < n {
		to := min(from+size, n)
		switch try(from, to) {
		case fine:
			from, size, inRow, stride = to, 2*size, 0, 1
			if from < bad { // half of what has it
				size = min(size, max(1, (bad-from)/2))
			}
		case amiss:
			if to-from > 1 {
				bad, size = to, (to-from)/2
				continue
			}
			from++
			bad = from
			if inRow++; inRow < mostRefused {
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

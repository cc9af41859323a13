package retrytable

// Sifted is what has become of things, and how many tries that took.
type Sifted struct {
	Stored, Alone, Skipped []int
	Tries                  int
}

// Sift is sift for tests: bad says which of n things are refused.
func Sift(n int, bad func(i int) bool) (s Sifted) {
	sift(n, func(from, to int) answer {
		s.Tries++
		for i := from; i < to; i++ {
			if bad(i) {
				if to-from == 1 {
					s.Alone = append(s.Alone, i)
				}
				return amiss
			}
		}
		for i := from; i < to; i++ {
			s.Stored = append(s.Stored, i)
		}
		return fine
	}, func(from, to int) {
		for i := from; i < to; i++ {
			s.Skipped = append(s.Skipped, i)
		}
	})
	return s
}

package retrytable

// Sift is sift for tests: bad says which of n things are refused, and nobody looks at more
// than limit tries.
func Sift(n int, bad func(i int) bool) (stored, alone, skipped []int, tries int) {
	sift(n, func(from, to int) answer {
		tries++
		for i := from; i < to; i++ {
			if bad(i) {
				if to-from == 1 {
					alone = append(alone, i)
				}
				return amiss
			}
		}
		for i := from; i < to; i++ {
			stored = append(stored, i)
		}
		return fine
	}, func(from, to int) {
		for i := from; i < to; i++ {
			skipped = append(skipped, i)
		}
	})
	return stored, alone, skipped, tries
}

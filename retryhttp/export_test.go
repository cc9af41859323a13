package retryhttp

// Texts are the errors that are known by their text: each must be provoked.
func Texts() (prefixes, suffixes []string) {
	for _, known := range texts {
		prefixes = append(prefixes, known.prefix)
		suffixes = append(suffixes, known.suffix)
	}
	return prefixes, suffixes
}

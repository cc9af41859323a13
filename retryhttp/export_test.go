package retryhttp

// Texts has the errors that are known by their text. A test must provoke each.
func Texts() (prefixes, suffixes []string) {
	for _, known := range texts {
		prefixes = append(prefixes, known.prefix)
		suffixes = append(suffixes, known.suffix)
	}
	return prefixes, suffixes
}

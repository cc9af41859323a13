package cli

import (
	"path/filepath"
	"slices"
	"strings"
)

// curlWarning says that curl takes an answer such as 503 for a success, without --fail.
const curlWarning = "curl exits with 0 for an HTTP error such as 503, so it is not run again; " +
	"add -f: retry curl -f … (or --fail-with-body)"

// curlShortWithValue are the short options of curl whose value is the rest of the word, or
// the next one. https://curl.se/docs/manpage.html
const curlShortWithValue = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"

// failsNot reports whether the command is curl, asks for a URL of HTTP, and does not fail for
// its errors. Files with options of curl are not read: with one, nothing is known.
func failsNot(args []string) bool {
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") != "curl" {
		return false
	}
	asks := false
	for _, arg := range args[1:] {
		switch {
		case slices.Contains([]string{"--fail", "--fail-with-body", "--config", "--version", "--help", "--manual"}, arg),
			strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && hasShort(arg, "fKVM"):
			return false
		case strings.HasPrefix(arg, "http://"), strings.HasPrefix(arg, "https://"):
			asks = true
		}
	}
	return asks
}

// hasShort reports whether one of several short options in a word is one of those wanted.
func hasShort(word, wanted string) bool {
	for _, option := range word[1:] {
		if strings.ContainsRune(wanted, option) {
			return true
		}
		if strings.ContainsRune(curlShortWithValue, option) {
			return false
		}
	}
	return false
}

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

// pipeWarning says that a shell takes a pipe for a success if its last command is one.
const pipeWarning = "a shell takes a pipe for a success if its last command is one: if another fails, it is not run again; " +
	"use bash -o pipefail -c"

// hidesFailure reports whether a command has a shell run a line with a pipe, and the shell is not
// told to fail if any part of the pipe does. The shell may come after another command, such as sudo.
func hidesFailure(args []string) bool {
	for i, arg := range args {
		if slices.Contains(strings.Fields("sh bash dash ash ksh mksh zsh"), strings.TrimSuffix(filepath.Base(arg), ".exe")) {
			line, options := shellLine(args[i+1:])
			return hasPipe(line) && !slices.Contains(options, "pipefail") &&
				!strings.Contains(line, "pipefail") && !strings.Contains(strings.ToLower(line), "pipestatus")
		}
	}
	return false
}

// shellLine returns the line that a shell runs by -c, or "", and the words before it.
func shellLine(args []string) (line string, options []string) {
	isLine := false
	for i, arg := range args {
		letters, isOption := strings.CutPrefix(arg, "-")
		valued := i > 0 && strings.HasPrefix(args[i-1], "-") && strings.HasSuffix(args[i-1], "o")
		switch {
		case isOption:
			isLine = isLine || !strings.HasPrefix(letters, "-") && strings.Contains(letters, "c")
		case valued: // as in -euo pipefail
		case isLine:
			return arg, args[:i]
		default:
			return "", nil // a file with a script
		}
	}
	return "", nil
}

// hasPipe reports whether a line for a shell has a pipe outside of quotes and comments.
func hasPipe(line string) bool {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\\':
			i++
		case c == '\'', c == '"':
			quote = c
		case c == '#' && (i == 0 || strings.IndexByte(" \t\n;", line[i-1]) >= 0):
			end := strings.IndexByte(line[i:], '\n')
			if end < 0 {
				return false
			}
			i += end
		case strings.HasPrefix(line[i:], "||"), strings.HasPrefix(line[i:], ">|"):
			i++
		case c == '|':
			return true
		}
	}
	return false
}

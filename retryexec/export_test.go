package retryexec

import "time"

// SetPipeDelay must be called before anything runs.
func SetPipeDelay(d time.Duration) { pipeDelay = d }

// Clean returns the text that rules match.
func Clean(stderr string) string { return clean(stderr) }

// LastLine returns the end of the text of an error.
func LastLine(stderr string) string { return lastLine(stderr) }

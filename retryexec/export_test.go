package retryexec

import "time"

// SetPipeDelay must be called before anything runs.
func SetPipeDelay(d time.Duration) { pipeDelay = d }

// Clean is what rules look at.
func Clean(stderr string) string { return clean(stderr) }

// LastLine is what ends the text of an error.
func LastLine(stderr string) string { return lastLine(stderr) }

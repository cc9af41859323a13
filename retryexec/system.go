package retryexec

import (
	"io/fs"
	"os"
	"os/exec"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

// categoryStart is the category of failures to start a command for an unknown
// reason.
const categoryStart = "start"

// classifySystem is [retry.Classify] with the failures to run a command, but
// exit codes.
func classifySystem(err error) retry.Verdict { return retry.Extend(systemVerdict)(err) }

// systemVerdict classifies one error of a tree.
func systemVerdict(err error) retry.Verdict {
	switch err {
	//nolint:errorlint // one node of a tree
	case exec.ErrNotFound, exec.ErrDot: // ErrDot: found, but in the current directory
		return verdict.Permanent("not_found")
	case exec.ErrWaitDelay: // the command has succeeded
		return verdict.Permanent("wait_delay")
	case os.ErrProcessDone:
		return verdict.Permanent("process_done")
	}
	switch e := err.(type) { //nolint:errorlint // one node of a tree
	case *timeoutError:
		return retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	case *startError:
		return notStarted(classifySystem(e.err))
	case *ranError:
		return ranVerdict(e.err)
	case *exec.Error: // from looking up the program
		if e != nil {
			return startVerdict(e.Err, verdict.Permanent("not_found"))
		}
	case *fs.PathError:
		if e != nil && e.Op == "fork/exec" {
			return startVerdict(e.Err, retry.Verdict{Class: retry.Retryable, Category: categoryStart})
		}
	}
	return retry.Verdict{}
}

// startVerdict returns the verdict about a failure to start a command: the
// verdict of [retry.Classify], or else the given one.
func startVerdict(err error, otherwise retry.Verdict) retry.Verdict {
	if isNoProgram(err) {
		return verdict.Permanent("invalid")
	}
	v := retry.Classify(err)
	if v.Class == retry.Unknown {
		v = otherwise
	}
	return notStarted(v)
}

// notStarted returns v for a command that was not started: nothing was applied.
func notStarted(v retry.Verdict) retry.Verdict {
	v.NotApplied = v.Class != retry.Final
	return v
}

// ranVerdict classifies an error of a command that was started: nothing but a mark proves
// that it had no effect.
func ranVerdict(err error) retry.Verdict {
	v := classifySystem(err)
	mark, _ := retry.Marked(err)
	v.NotApplied = mark.NotApplied
	return v
}

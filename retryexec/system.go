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
var classifySystem = retry.Extend(systemVerdict)

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
	case *exec.Error: // from looking up the program
		if e != nil {
			return notStarted(e.Err, verdict.Permanent("not_found"))
		}
	case *fs.PathError:
		if e != nil && e.Op == "fork/exec" {
			return notStarted(e.Err, retry.Verdict{Class: retry.Retryable, Category: categoryStart})
		}
	}
	return retry.Verdict{}
}

// notStarted returns the verdict about a failure to start a command: the
// verdict of [retry.Classify], or else the given one. Nothing was applied.
func notStarted(err error, otherwise retry.Verdict) retry.Verdict {
	if isNoProgram(err) {
		return verdict.Permanent("invalid")
	}
	v := retry.Classify(err)
	if v.Class == retry.Unknown {
		v = otherwise
	}
	v.NotApplied = v.Class != retry.Final
	return v
}

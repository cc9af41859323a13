package retryexec

import (
	"io/fs"
	"os"
	"os/exec"

	"github.com/seed-5ff3c98e/retry"
)

// categoryStart is the category of failures to start a command that nothing more
// is known of.
const categoryStart = "start"

// classifySystem is [retry.Classify] with what is known of running commands, but
// for their exit codes.
var classifySystem = retry.Extend(systemVerdict)

// systemVerdict judges one error of a tree.
func systemVerdict(err error) retry.Verdict {
	switch err {
	//nolint:errorlint // one node of a tree
	case exec.ErrNotFound, exec.ErrDot: // ErrDot: found, but where it may be anyone's
		return final("not_found")
	case exec.ErrWaitDelay: // the command has succeeded
		return final("wait_delay")
	case os.ErrProcessDone:
		return final("process_done")
	}
	switch e := err.(type) { //nolint:errorlint // one node of a tree
	case *timeoutError:
		return retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	case *exec.Error: // of looking for the program
		if e != nil {
			return notStarted(e.Err, final("not_found"))
		}
	case *fs.PathError:
		if e != nil && e.Op == "fork/exec" {
			return notStarted(e.Err, retry.Verdict{Class: retry.Retryable, Category: categoryStart})
		}
	}
	return retry.Verdict{}
}

// notStarted returns the verdict about what kept a command from starting: that
// of [retry.Classify], or else the given one. Nothing was applied.
func notStarted(err error, otherwise retry.Verdict) retry.Verdict {
	if isNoProgram(err) {
		return final("invalid")
	}
	v := retry.Classify(err)
	if v.Class == retry.Unknown {
		v = otherwise
	}
	v.NotApplied = v.Class != retry.Final
	return v
}

func final(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

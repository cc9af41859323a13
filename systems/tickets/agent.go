package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

var errNoDefinition = errors.New("logic error: the ticket has no design with a definition")

// shell is an agent that runs the definition of a design with sh.
func shell(ctx context.Context, t ticket) error {
	if t.Definition == "" {
		return errNoDefinition
	}
	return retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", t.Definition)
		cmd.Env = append(os.Environ(), "TICKET_ID="+t.ID, "RETRY_COUNT="+strconv.Itoa(t.Retries), "REJECTION_COUNT="+strconv.Itoa(t.Rejections))
		retryexec.KillWithParent(cmd) // or it would run on beside its own retry
		return cmd
	})
}

// told is an error of an agent, whose text is what is stored of it: below its own text it
// has both ends of what its command wrote, if that was more than the line in the text: the
// last line alone seldom says why.
type told struct{ error }

// Unwrap returns the error of the agent.
func (e *told) Unwrap() error { return e.error }

// Error implements error.
func (e *told) Error() string {
	const end = 700
	err := e.error
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	wrote := strings.TrimSpace(string(exit.Stderr))
	if len(wrote) > 2*end {
		wrote = wrote[:end] + "\n[...]\n" + wrote[len(wrote)-end:]
	}
	if !strings.Contains(wrote, "\n") {
		return err.Error()
	}
	return err.Error() + "\n" + wrote
}

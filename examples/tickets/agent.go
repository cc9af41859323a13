package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

var errNoDefinition = errors.New("logic error: the ticket has no design with a definition")

// shell returns an agent that runs the definition of a design with sh.
func shell(timeout time.Duration) func(context.Context, ticket) error {
	return func(ctx context.Context, t ticket) error {
		if t.Definition == "" {
			return errNoDefinition
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "sh", "-c", t.Definition)
			cmd.Env = append(os.Environ(), "TICKET_ID="+strconv.FormatInt(t.ID, 10), "RETRY_COUNT="+strconv.Itoa(t.Retries))
			return cmd
		})
	}
}

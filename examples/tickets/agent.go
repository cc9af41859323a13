package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

var errNoDefinition = errors.New("logic error: the ticket has no design with a definition")

// shell returns an agent that runs the definition of a design with sh. Its error
// ends with the last line of standard error.
func shell(timeout time.Duration) func(context.Context, ticket) error {
	once := &retry.Policy{MaxAttempts: 1, AttemptTimeout: timeout} // the engine retries
	return func(ctx context.Context, t ticket) error {
		if t.Definition == "" {
			return errNoDefinition
		}
		err := retryexec.Run(ctx, once, func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "sh", "-c", t.Definition)
			cmd.Env = append(os.Environ(), "TICKET_ID="+strconv.FormatInt(t.ID, 10), "RETRY_COUNT="+strconv.Itoa(t.Retries))
			return cmd
		})
		var gaveUp *retry.Error
		if errors.As(err, &gaveUp) && gaveUp.Err != nil {
			err = gaveUp.Err // after the one attempt
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			text := strings.TrimSpace(string(exit.Stderr))
			err = fmt.Errorf("%w: %s", err, text[strings.LastIndexByte(text, '\n')+1:])
		}
		return err
	}
}

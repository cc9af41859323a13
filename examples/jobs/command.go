package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

// Command runs a command. Its output goes to the terminal while it runs.
func Command(ctx context.Context, name string, arg ...string) error {
	return retryexec.Run(ctx, nil, retryexec.Command(name, arg...))
}

package retryexec_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestContextDoneBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := retryexec.Output(ctx, nil, func(context.Context) *exec.Cmd {
		panic("called")
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, out)
	var none context.Context
	assert.NoError(t, retryexec.Run(none, nil, scripts(nil)))
}

// TestCancel is the vector (-1 SIGKILL, context of the caller dead): the error
// is that of the context, even if the Cmd knows of another one or of none.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, newCmd := range map[string]func(context.Context) *exec.Cmd{
		"CommandContext": func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, os.Args[0]) },
		"another one":    func(context.Context) *exec.Cmd { return exec.CommandContext(context.Background(), os.Args[0]) },
		"Command":        func(context.Context) *exec.Cmd { return exec.Command(os.Args[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("shutdown")
			err := retryexec.Run(ctx, p, func(ctx context.Context) *exec.Cmd {
				cmd := newCmd(ctx)
				cmd.Env = environ("out:ready", "hang")
				cmd.Stdout = onWrite(func([]byte) { cancel(cause) })
				return cmd
			})
			var end *retry.Error
			require.ErrorAs(t, err, &end)
			assert.Equal(t, retry.StopCanceled, end.Stop)
			assert.Equal(t, 1, end.Attempts)
			assert.ErrorIs(t, err, cause)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			var exit *exec.ExitError
			assert.ErrorAs(t, err, &exit)
			assert.Len(t, recorder.Events(), 1)
		})
	}
}

// TestAttemptTimeout is trap T4: a killed process does not say why.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	for name, classifier := range map[string]retry.Classifier{
		"default": nil,
		"simple":  retryexec.Simple().Classify,
		"final":   retryexec.Profile{{Verdict: retry.Verdict{Class: retry.Final}}}.Classify,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			p, recorder := policy()
			p.Clock, p.AttemptTimeout, p.Classifier = clock, time.Minute, classifier
			newCmd := scripts([]string{"out:ready", "hang"}, nil)
			require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
				cmd := newCmd(ctx)
				cmd.Stdout = onWrite(func([]byte) { clock.Advance(time.Minute) })
				return cmd
			}))
			assert.Equal(t, []string{"retryable timeout"}, categories(recorder))
			err := recorder.Events()[0].Err
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, "attempt timed out: "+exit.Error(), err.Error())
			assert.Equal(t, verdict(retry.Retryable, "timeout"), retry.Classify(err), "without this package")
		})
	}
}

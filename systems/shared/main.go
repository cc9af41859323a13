package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// exit is an error with the exit code of the program that ends by it.
type exit struct {
	error

	code int
}

func (e *exit) Unwrap() error { return e.error }

// Exit gives an error, if it is one, the exit code of the program that ends by it. Its text stays.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exit{err, code}
}

// Usage is Exit for an argument, a flag, its value or a setting that is wrong: 2, as package flag
// has it.
func Usage(err error) error { return Exit(2, err) }

// ExitCode is the exit code of a program whose run returns err: 0 for nil, and 1 unless [Exit]
// or [Usage] says otherwise.
func ExitCode(err error) int {
	var e *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	default:
		return 1
	}
}

// Main runs a program with its arguments and ends the process. The context is
// done at an interrupt or SIGTERM, which is a way for run to end well; a second
// one ends the process at once.
//
// The exit code is 0 if run returns the error of the context that was interrupted, and otherwise
// [ExitCode]. The error is on standard error.
func Main(run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout)
	if ctx.Err() != nil && ExitCode(err) == 1 && errors.Is(err, ctx.Err()) {
		err = nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(ExitCode(err))
}

// Positive returns an error that names every flag whose number is not positive, or
// is negative if it is one of those that may be zero. To the library, a zero means
// a default of its own.
func Positive(flags *flag.FlagSet, mayBeZero ...string) error {
	var faults []error
	flags.VisitAll(func(f *flag.Flag) {
		n := 1.
		if v := reflect.ValueOf(f.Value.(flag.Getter).Get()); v.CanInt() { // a duration too
			n = float64(v.Int())
		} else if v.CanFloat() {
			n = v.Float()
		}
		switch may := slices.Contains(mayBeZero, f.Name); {
		case n > 0, n == 0 && may:
		case may:
			faults = append(faults, fmt.Errorf("-%s: %v: must not be negative", f.Name, f.Value))
		default:
			faults = append(faults, fmt.Errorf("-%s: %v: must be positive", f.Name, f.Value))
		}
	})
	return Usage(errors.Join(faults...))
}

// Wait waits for so long, or until the context is done; it returns its error then.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

// Failed is an OnError of a worker. A lease that is lost has a level of its own: whoever has ended
// the job meanwhile tells that.
func Failed(log *slog.Logger, name string, lost slog.Level) func(context.Context, error) {
	return func(ctx context.Context, err error) {
		level := slog.LevelError
		if errors.Is(err, retrytable.ErrLeaseLost) {
			level = lost
		}
		log.Log(ctx, level, name, "error", err)
	}
}

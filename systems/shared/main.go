package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// The exit codes of all systems.
const (
	exitFailed = 1
	exitUsage  = 2 // as package flag has it: an argument, a flag or its value is wrong
)

// errUsage is the error of a command line that the program has no use for.
var errUsage = errors.New("usage")

// Usage makes an error one about the command line. Its text stays.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error      { return e.error }

// Main runs a program with its arguments and ends the process. The context is
// done at an interrupt or SIGTERM, which is a way for run to end well; a second
// one ends the process at once.
//
// The exit code is 0 if run returns nil or the error of the context that was interrupted; 2
// if the command line is wrong, see [Usage]; and otherwise 1. The error is on standard error.
func Main(run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errUsage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// Positive returns an error that names every flag whose number is not positive, or
// is negative if it is one of those that may be zero. To the library, a zero means
// a default of its own.
func Positive(flags *flag.FlagSet, mayBeZero ...string) error {
	var faults []error
	flags.VisitAll(func(f *flag.Flag) {
		n, ok := number(f)
		switch may := slices.Contains(mayBeZero, f.Name); {
		case !ok, n > 0, n == 0 && may:
		case may:
			faults = append(faults, fmt.Errorf("-%s: %v: must not be negative", f.Name, f.Value))
		default:
			faults = append(faults, fmt.Errorf("-%s: %v: must be positive", f.Name, f.Value))
		}
	})
	return Usage(errors.Join(faults...))
}

func number(f *flag.Flag) (n float64, ok bool) {
	switch v := f.Value.(flag.Getter).Get().(type) { // which all of package flag are, but a Func
	case time.Duration:
		return v.Seconds(), true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

// DSN adds the flag for [Open].
func DSN(flags *flag.FlagSet) *string {
	servers := "postgres://user@host/name"
	if hasMySQL() {
		servers += ", mysql://user@tcp(host:3306)/name"
	}
	return flags.String("dsn", "", "the database: "+servers+", or a file for SQLite")
}

// Wait waits for so long, or until the context is done; it returns its error then.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

// Faster is how long d takes in a demonstration of such a speed: at least a microsecond,
// because a Policy doubts less.
func Faster(d time.Duration, speed int) time.Duration {
	return max(d/time.Duration(speed), time.Microsecond)
}

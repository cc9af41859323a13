// Package shared is what the systems beside it have in common: the shape of their
// commands, how to open their database, and how a main ends. It is no part of the library.
//
// A program is NAME COMMAND [flags]: serve, or work, until it is interrupted, on the database
// of -dsn; migrate, which prepares a table that exists; and what else the program is for.
//
//	func main() { shared.Main(program.Run) }
//
//	var program = shared.Program{Name: "runs", About: "replays recorded requests.", Commands: []shared.Command{
//		{"serve", "works until it is interrupted", serve},
//	}}
//
//	func serve(flags *flag.FlagSet) shared.Action {
//		poll := flags.Duration("poll", time.Second, "the pause when there is nothing to do")
//		return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
//			if err := shared.Positive(flags); err != nil {
//				return err
//			}
//			…
//		})
//	}
package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
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
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	if err != nil {
		return 1
	}
	return 0
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

// Must is nil if ok, and otherwise an error that names a value and says what it must be.
func Must(ok bool, name string, value any, problem string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: %v: must %s", name, value, problem)
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
		mayBe := slices.Contains(mayBeZero, f.Name)
		faults = append(faults, Must(n > 0 || mayBe, "-"+f.Name, f.Value, "be positive"),
			Must(n >= 0 || !mayBe, "-"+f.Name, f.Value, "not be negative"))
	})
	return Usage(errors.Join(faults...))
}

// Failed is an OnError of a worker. A lease that is lost has a level of its own: whoever has ended
// the job meanwhile tells that. A database that does not answer is told once in a while, although
// every statement finds that out.
func Failed(log *slog.Logger, name string, lost slog.Level) func(context.Context, error) {
	outage := rate.Sometimes{Interval: time.Minute}
	return func(ctx context.Context, err error) {
		switch {
		case errors.Is(err, retrytable.ErrLeaseLost):
			log.Log(ctx, lost, name, "error", err)
		case retrysql.Classify(err).Class == retry.Retryable:
			outage.Do(func() { log.ErrorContext(ctx, name, "error", err) })
		default:
			log.ErrorContext(ctx, name, "error", err)
		}
	}
}

// Program is a program of several commands: runs serve -dsn runs.db. Each command has the
// flags that it uses and no others, so that no flag is ignored.
type Program struct {
	Name     string
	About    string // what the program does, in a sentence
	Commands []Command
}

// Command is one of the commands of a [Program].
type Command struct {
	Name  string // a word, or several: "state retry"
	About string // what it does, in a sentence

	// Flags defines the flags, and returns what is done when they are parsed.
	Flags func(flags *flag.FlagSet) Action
}

// Action is what a command does. It writes its results to out.
type Action func(ctx context.Context, out io.Writer) error

// Run runs the command that args begin with. Arguments that no command has a use for are an
// error for [Main], and so is a program without a command. -h explains the program, or the
// command that it comes after.
func (p *Program) Run(ctx context.Context, args []string, out io.Writer) error {
	var help strings.Builder
	fmt.Fprintf(&help, "%s %s\n\n", p.Name, p.About)
	for _, c := range p.Commands {
		words := strings.Fields(c.Name)
		if n := len(words); len(args) >= n && slices.Equal(args[:n], words) {
			return c.run(ctx, p.Name+" "+c.Name, args[n:], out)
		}
		fmt.Fprintf(&help, "  %s %-12s %s\n", p.Name, c.Name, c.About)
	}
	fmt.Fprintf(&help, "\n%s COMMAND -h lists the flags of a command.\n", p.Name)
	switch {
	case len(args) == 0:
		return Usage(fmt.Errorf("usage: %s: a command is missing\n%s", p.Name, help.String()))
	case slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		_, err := fmt.Fprint(out, help.String())
		return err
	default:
		return Usage(fmt.Errorf("usage: %s: %q is no command\n%s", p.Name, args[0], help.String()))
	}
}

func (c *Command) run(ctx context.Context, name string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it is told in our words
	action := c.Flags(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "%s %s\n\n", name, c.About)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument: %s", flags.Arg(0))
	}
	if err != nil {
		return Usage(fmt.Errorf("usage: %s: %w\n%s -h lists the flags", name, err, name))
	}
	return action(ctx, out)
}

// Listen listens at an address of a flag.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if wrong := new(net.AddrError); errors.As(err, &wrong) {
		err = Usage(err)
	}
	return listener, err
}

// Serve serves HTTP until the context is done, and returns its error then. Requests that have
// begun may end, within grace. A client names the server by an IP address, as localhost, or as
// one of hosts.
//
// A request takes at most 1 MiB and 30 seconds to arrive, and its answer 3 minutes; a connection
// without a request is closed after a minute. A browser sends nothing for a page of another site.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, grace time.Duration, hosts ...string) error {
	server := &http.Server{
		Handler: guarded(handler, append(hosts, "localhost")), MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 3 * time.Minute, IdleTimeout: time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if err := server.Shutdown(within); err != nil {
		return fmt.Errorf("shutdown: %w", errors.Join(err, server.Close()))
	}
	return ctx.Err()
}

// guarded refuses what is too large, and what a page of another site has a browser send. Such a
// page may have a name that leads to this server, and its requests are then no cross-origin ones:
// so the name of the server must be known too.
func guarded(handler http.Handler, hosts []string) http.Handler {
	handler = http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(handler, 1<<20))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(name); err != nil && !slices.Contains(hosts, name) {
			http.Error(w, fmt.Sprintf("Host: %.100q: must be an IP address or one of %q", r.Host, hosts), http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

package shared_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// program is the variable that makes this test program one that ends as it says.
const program = "RETRY_EXAMPLE_SHARED_PROGRAM"

func TestMain(m *testing.M) {
	what := os.Getenv(program)
	if what == "" {
		os.Exit(m.Run())
	}
	ends := shared.Program{Name: "program", About: "ends as it is told.", Commands: []shared.Command{
		{"serve", "works", func(flags *flag.FlagSet) shared.Action {
			dsn := flags.String("dsn", "", "")
			return func(ctx context.Context, out io.Writer) error {
				fmt.Fprintln(out, "started", *dsn)
				switch what {
				case "fail":
					return errors.New("out of order")
				case "exit":
					return fmt.Errorf("in between: %w", shared.Exit(7, context.Canceled))
				case "wait":
					<-ctx.Done()
					return fmt.Errorf("in between: %w", ctx.Err())
				}
				return nil
			}
		}},
		{"state retry", "is two words", func(*flag.FlagSet) shared.Action {
			return func(_ context.Context, out io.Writer) error {
				_, err := fmt.Fprintln(out, "retried")
				return err
			}
		}},
	}}
	shared.Main(ends.Run)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, what string
		args       []string
		signal     os.Signal
		code       int
		out, err   string
	}{
		{"well", "end", []string{"serve", "-dsn", "x"}, nil, 0, "started x\n", ""},
		{"failed", "fail", []string{"serve"}, nil, 1, "started \n", "out of order\n"},
		{"failed in its own way", "exit", []string{"serve"}, nil, 7, "started \n", "in between: context canceled\n"},
		{"interrupted", "wait", []string{"serve"}, os.Interrupt, 0, "started \n", ""},
		{"two words", "end", []string{"state", "retry"}, nil, 0, "retried\n", ""},
		{"help", "end", []string{"-help"}, nil, 0, "program ends as it is told.\n\n  program serve        works\n", ""},
		{"help of a command", "end", []string{"serve", "-h"}, nil, 0, "program serve works\n\n  -dsn string\n", ""},
		{"no command", "end", nil, nil, 2, "", "usage: program: a command is missing\nprogram ends"},
		{"half a command", "end", []string{"state"}, nil, 2, "", "usage: program: \"state\" is no command\n"},
		{"unknown flag", "end", []string{"serve", "-x"}, nil, 2, "", "usage: program serve: flag provided but not defined: -x\n"},
		{
			"flag of another command", "end",
			[]string{"state", "retry", "-dsn", "x"},
			nil, 2, "",
			"usage: program state retry: flag provided but not defined: -dsn\n",
		},
		{"argument", "end", []string{"serve", "x"}, nil, 2, "", "usage: program serve: unexpected argument: x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], tt.args...)
			cmd.Env = append(os.Environ(), program+"="+tt.what)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			started := make([]byte, len(tt.out))
			_, err = io.ReadFull(stdout, started)
			require.NoError(t, err)
			if tt.signal != nil {
				require.NoError(t, cmd.Process.Signal(tt.signal))
			}
			_ = cmd.Wait() // an error if the code is not 0
			assert.Equal(t, tt.code, cmd.ProcessState.ExitCode())
			assert.Equal(t, tt.out, string(started))
			assert.Equal(t, tt.err, stderr.String()[:min(len(tt.err), stderr.Len())])
			if tt.err == "" {
				assert.Empty(t, stderr.String())
			}
		})
	}
}

// Every number that is wrong is named with its value, and nothing else is.
func TestPositive(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args  []string
		wants []string
	}{
		"defaults": {nil, nil},
		"zeros": {[]string{"-n=0", "-d=0", "-x=0"}, []string{
			"-d: 0s: must be positive", "-n: 0: must be positive", "-x: 0: must be positive",
		}},
		"negative": {[]string{"-n=-1", "-d=-1ns", "-x=-0.5"}, []string{
			"-d: -1ns: must be positive", "-n: -1: must be positive", "-x: -0.5: must be positive",
		}},
		"64 bits":            {[]string{"-i=-1"}, []string{"-i: -1: must be positive"}},
		"not a number":       {[]string{"-x=NaN"}, []string{"-x: NaN: must be positive"}},
		"no numbers":         {[]string{"-s=0", "-b=0"}, nil},
		"may be zero":        {[]string{"-z=0"}, nil},
		"and negative":       {[]string{"-z=-1s"}, []string{"-z: -1s: must not be negative"}},
		"small but positive": {[]string{"-d=1ns", "-x=1e-300"}, nil},
	}
	for name, tt := range tests {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.Int("n", 1, "")
		flags.Int64("i", 1, "")
		flags.Duration("d", 1, "")
		flags.Float64("x", 1, "")
		flags.Duration("z", 1, "")
		flags.String("s", "-1", "")
		flags.Bool("b", false, "")
		require.NoError(t, flags.Parse(tt.args))
		if err := shared.Positive(flags, "z"); tt.wants == nil {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, strings.Join(tt.wants, "\n"), name)
		}
	}
}

// What a program prints is read piece by piece, while it runs.
func TestOutput(t *testing.T) {
	t.Parallel()
	heard := make(chan bool)
	out, stop := dbtest.Start(t, func(ctx context.Context, args []string, out io.Writer) error {
		fmt.Fprintln(out, "port", args[0])
		<-heard
		fmt.Fprint(out, "port ")
		heard <- true // the line is not complete
		fmt.Fprint(out, "2\nready\n")
		<-ctx.Done()
		fmt.Fprintln(out, "end")
		return ctx.Err()
	}, "1")
	assert.Equal(t, []string{"port 1\n", "1"}, out.Await(t, `port (\d+)\n`))
	heard <- true
	<-heard
	assert.Equal(t, []string{"port 2\n", "2"}, out.Await(t, `port (\d+)\n`))
	out.Await(t, "ready\n")
	assert.Empty(t, out.Rest())
	assert.Equal(t, context.Canceled, stop())
	assert.Equal(t, context.Canceled, stop(), "the same each time")
	assert.Equal(t, "end\n", out.Rest())
	assert.Equal(t, "port 1\nport 2\nready\nend\n", out.String())

	assert.Equal(t, "1 2", dbtest.Run(t, func(_ context.Context, args []string, out io.Writer) error {
		_, err := fmt.Fprint(out, strings.Join(args, " "))
		return err
	}, "1", "2"))
}

// A database that does not answer is told once a minute, and what it has answered each time.
func TestFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		failed := shared.Failed(slog.New(slog.NewTextHandler(&out, nil)), "engine", slog.LevelInfo)
		away := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		for range 3 {
			failed(t.Context(), away)
			failed(t.Context(), errors.New("a row"))
		}
		failed(t.Context(), retrytable.ErrLeaseLost)
		time.Sleep(time.Minute) // in the bubble
		failed(t.Context(), away)
		assert.Equal(t, 2, strings.Count(out.String(), "refused"), out.String())
		assert.Equal(t, 3, strings.Count(out.String(), "a row"))
		assert.Equal(t, 1, strings.Count(out.String(), "level=INFO"))
	})
}

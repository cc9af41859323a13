package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
)

// options is what the flags say.
type options struct {
	*compare.Options
	plot, reproduce string
}

// parse reads the flags. It prints them to help if they ask for it.
func parse(args []string, help io.Writer) (options, error) {
	o := options{Options: compare.New()}
	var policy string
	f := flag.NewFlagSet("storm", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are for the caller
	f.StringVar(&policy, "policy", "", "`file` with the JSON form of a retry.Policy (default: "+o.Policy.String()+")")
	o.Flags(f)
	f.StringVar(&o.plot, "plot", "", "`file` for a drawing of the load, in SVG")
	f.StringVar(&o.reproduce, "reproduce", "", "write the tables of docs/evidence/storms.md to `file`, and nothing else")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(help)
			f.PrintDefaults()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: there are flags only, no arguments", f.Arg(0))
	}
	err := o.Check("-")
	if policy != "" {
		if policyErr := o.readPolicy(policy); policyErr != nil {
			err = errors.Join(err, fmt.Errorf("-policy: %s: %w", policy, policyErr))
		}
	}
	return o, err
}

func (o *options) readPolicy(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Unwrap(err) // its text has the name of the file again
	}
	o.Policy = retry.Policy{}
	return o.Policy.UnmarshalJSON(data)
}

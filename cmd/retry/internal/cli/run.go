package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// runner runs a command under a policy.
type runner struct {
	policy      policyFlags
	profile     string
	onExit      []int
	finalExit   []int
	until       string
	untilFails  bool
	giveUpExit  int
	killAfter   time.Duration
	noStdin     bool
	hold        bool
	quiet       bool
	name        string
	log         string
	args        []string
	stdin       *input
	signals     *forwarder
	lastFailure error
	held        *held // the output of the last run, with hold
	advice      func(err error) string
}

// register adds the flags.
func (r *runner) register(flags *pflag.FlagSet) {
	r.profile, r.log, r.killAfter = profileAuto, logText, 10*time.Second
	flags.Var(value[[]int]{&r.onExit, parseCodes, "CODES"}, "on-exit", "run again after these exit codes alone: 1,75-78")
	flags.Var(value[[]int]{&r.finalExit, parseCodes, "CODES"}, "final-exit", "never run again after these exit codes")
	flags.Var(value[string]{&r.profile, anyText, "NAME"}, "profile", "what exit codes mean: auto (default), ssh, …")
	flags.Var(value[string]{&r.until, anyText, "COMMAND"}, "until", "run again until this shell command succeeds, too")
	flags.BoolVar(&r.untilFails, "until-fails", false, "run until the command fails, and then exit with 0")
	flags.Var(value[int]{&r.giveUpExit, parseExit, "CODE"}, "give-up-exit", "exit code of giving up; default: of the last run")
	flags.Var(value[time.Duration]{&r.killAfter, parsePositive, "TIME"}, "kill-after", "from SIGTERM or a signal to SIGKILL; default 10s")
	flags.BoolVar(&r.noStdin, "no-stdin", false, "leave standard input alone")
	flags.BoolVar(&r.hold, "hold-stdout", false, "pass on the output of the last run only")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "say nothing on standard error")
	flags.Var(value[string]{&r.log, anyText, "FORMAT"}, "log", "what that is: text (default) or json")
	flags.Var(value[string]{&r.name, anyText, "NAME"}, "name", "of the command in what retry says")
}

// parseCodes reads exit codes and ranges: "1,75-78".
func parseCodes(text string) ([]int, error) {
	var codes []int
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || first < 1 || last > 255 || first > last {
			return nil, errors.New("must be exit codes from 1 to 255, such as 1,75-78")
		}
		for code := first; code <= last; code++ {
			codes = append(codes, code)
		}
	}
	return codes, nil
}

func parseExit(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, errors.New("must be an exit code from 1 to 255")
	}
	return code, nil
}

// main runs the command to its end.
func (r *runner) main(args []string) error {
	r.args = args
	switch {
	case r.untilFails && r.until != "":
		return errors.New("--until and --until-fails exclude each other")
	case r.policy.file == standardInput:
		return errors.New("--policy -: standard input is that of the command; name a file")
	}
	policy, err := r.policy.policy()
	if err != nil {
		return err
	}
	if policy.Classifier, err = r.classifier(); err != nil {
		return err
	}
	if r.name == "" {
		r.name = shownCommand(args)
	}
	log, err := newLog(r.log, r.quiet, plain(r.name))
	if err != nil {
		return err
	}
	policy.Clock = log.clock()
	if r.until == "" && !r.untilFails && failsNot(args) {
		log.warn(curlWarning)
	}
	if r.until == "" && hidesFailure(args) {
		log.warn(pipeWarning)
	}
	if n := r.policy.seconds; n != "" { // other programs of this name have -t for the number of runs
		log.warn(fmt.Sprintf("-t %s is a limit of %[1]s seconds for each run, best written -t %[1]ss; -n %[1]s is the number of runs", n))
	}
	r.stdin = openInput(r.noStdin)
	defer r.stdin.close()
	defer func() { r.held.close() }()

	r.signals = forwardSignals()
	call := retry.Call{Policy: policy, Protocol: retryexec.Classify}
	defer call.Abort()
	began := time.Now()
	for call.Next(r.signals.ctx) {
		r.lastFailure = r.attempt(call.Context())
		decision := call.End(r.lastFailure)
		log.attempt(call.Attempt(), r.lastFailure, decision, time.Since(began))
	}
	log.end()
	if text := r.advice(r.lastFailure); text != "" {
		log.warn(text)
	}
	if isFault(r.lastFailure) {
		return &exitCodeError{code: exitUsage, message: r.lastFailure.Error()}
	}
	if err := r.held.passOn(os.Stdout); err != nil {
		return &exitCodeError{code: exitUsage, message: err.Error()}
	}
	return r.result(call.Err())
}

// result returns the exit code.
func (r *runner) result(err error) error {
	if err == nil {
		return nil
	}
	var gaveUp *retry.Error
	switch code, signal := r.signals.code(); {
	case signal != nil && (!r.signals.passedOn() || exitCode(r.lastFailure) == code):
		// It came between two runs, or the run has died by it. A shell ends its script only if
		// it sees that retry has died by the signal, too.
		return &exitCodeError{code: code, signal: signal}
	case signal != nil:
		return &exitCodeError{code: exitCode(r.lastFailure)}
	case errors.As(err, &gaveUp) && r.giveUpExit != 0:
		return &exitCodeError{code: r.giveUpExit}
	case r.lastFailure == nil:
		return &exitCodeError{code: exitTimeout}
	default:
		return &exitCodeError{code: exitCode(r.lastFailure)}
	}
}

// attempt runs the command once, and then the condition.
func (r *runner) attempt(ctx context.Context) error {
	err := r.ended(r.command(ctx))
	switch {
	case isFault(err):
		return err
	case r.untilFails:
		return r.inverted(err)
	case err != nil || r.until == "":
		return err
	}
	err = r.ended(retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
		cmd := retryexec.Command("sh", "-c", r.until)(ctx)
		cmd.Stdout = nil // standard output is the command's
		return r.stoppable(cmd)
	}))
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return retry.Mark(errCondition, retry.Verdict{Class: retry.Retryable, Category: "until"})
	}
	return err
}

// command runs the command once. If its input fails, the run is told to end, and has
// failed by a fault. So has a run whose output could not be kept, however it ended.
func (r *runner) command(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stdin, inputEnded, err := r.stdin.open(stop)
	if err != nil {
		return err
	}
	if r.hold {
		r.held.close()
		r.held = newHeld()
	}
	err = retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
		cmd := retryexec.Command(r.args[0], r.args[1:]...)(ctx)
		if stdin != nil {
			cmd.Stdin = stdin
		}
		if r.hold {
			cmd.Stdout = r.held
		}
		return r.stoppable(cmd)
	})
	if fault := inputEnded(); fault != nil && err != nil {
		return fault // A run that has ended well by itself had all that it wanted: it saw no end of the input.
	}
	if r.hold && r.held.fault() != nil {
		return newFault("standard output cannot be held back", r.held.fault(), roomAdvice)
	}
	return err
}

// inverted returns what the end of the command is with --until-fails. An exit code of
// --on-exit or --final-exit stays a failure, because these flags say what it means.
// Everything that is not an exit code of a run that ended by itself stays a failure too:
// a command that is not found, is too slow or is told to end has not failed.
func (r *runner) inverted(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return retry.Mark(errSucceeds, retry.Verdict{Class: retry.Retryable, Category: "until_fails"})
	case r.signals.passedOn(), errors.Is(err, context.DeadlineExceeded), !errors.As(err, &exit), !exit.Exited():
		return err
	case slices.Contains(r.onExit, exit.ExitCode()), slices.Contains(r.finalExit, exit.ExitCode()):
		return err
	default:
		return nil
	}
}

// ended settles the end of a process, and returns its failure.
func (r *runner) ended(err error) error {
	r.signals.forget()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return err
	case errors.Is(err, exec.ErrWaitDelay) && !r.hold:
		return nil // It has left a process behind that holds standard error. All output went through.
	case errors.Is(err, context.Canceled) && r.signals.passedOn():
		return nil // It was told to end, and ended well.
	default:
		return err
	}
}

// stoppable lets cmd end by the signal that has come, or SIGTERM, and kills it later. It
// does not live on if this program is killed.
func (r *runner) stoppable(cmd *exec.Cmd) *exec.Cmd {
	retryexec.KillWithParent(cmd)
	cmd.Cancel = func() error { return r.signals.passOn(cmd) }
	cmd.WaitDelay = r.killAfter
	return cmd
}

// The values of --profile. Auto is the profile with the name of the command.
const (
	profileAuto    = "auto"
	profileDefault = "default"
)

var profiles = map[string]func() retryexec.Profile{
	"curl": retryexec.Curl, "rsync": retryexec.Rsync, "simple": retryexec.Simple, "ssh": retryexec.SSH, "wget": retryexec.Wget,
}

func profileNames() []string {
	names := []string{profileAuto, profileDefault}
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// classifier returns what the flags say about failures.
func (r *runner) classifier() (retry.Classifier, error) {
	name := r.profile
	if name == profileAuto {
		name = strings.TrimSuffix(filepath.Base(r.args[0]), ".exe")
		if name == "simple" || profiles[name] == nil {
			name = profileDefault
		}
	}
	var profile retryexec.Profile
	switch {
	case profiles[name] != nil:
		profile = profiles[name]()
	case name != profileDefault:
		return nil, fmt.Errorf("--profile %s: must be one of %s", name, strings.Join(profileNames(), ", "))
	}
	// A run that was too slow is no exit code, but what --attempt-timeout is for.
	rules := retryexec.Profile{{
		Err: context.DeadlineExceeded, Verdict: retry.Verdict{Class: retry.Retryable, Category: "timeout"},
	}}
	if r.finalExit != nil {
		rules = append(rules, retryexec.Rule{Codes: r.finalExit, Verdict: retry.Verdict{Class: retry.Final}})
	}
	if r.onExit != nil {
		rules = append(rules,
			retryexec.Rule{Codes: r.onExit, Verdict: retry.Verdict{Class: retry.Retryable}},
			retryexec.Rule{Verdict: retry.Verdict{Class: retry.Final}})
	}
	return append(rules, profile...).Classify, nil
}

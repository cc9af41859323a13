package retryexec

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

// Rule is one line of a [Profile]. It matches a failure that meets all the
// conditions that are set. A Rule without conditions matches every command that
// has run and failed.
type Rule struct {
	// Codes are the exit codes that match. 128 + n stands for the signal n too,
	// whether it killed the process itself or, by way of a shell, a child of it.
	// Empty means any.
	Codes []int

	// MinCode is the smallest exit code that matches. A process that was killed
	// by a signal has none. 0 or less means any.
	MinCode int

	// Stderr matches standard error: its first and its last 8 KiB, in lower case,
	// without terminal escape sequences. nil means any.
	Stderr *regexp.Regexp

	// Err is the error, in the sense of [errors.Is]. [Profile.Classify]
	// compares it with each error of the tree by itself. A rule with an Err
	// alone also matches commands that did not run. nil means any.
	Err error

	// Verdict is the result. An empty Category becomes "exit_1" and the like, or
	// "signal_killed" and the like for 128 + n. So the class Unknown is an
	// opinion here: unknown, retried.
	Verdict retry.Verdict
}

// Profile classifies the failures of a command: the first matching rule
// decides. It is a literal, and append combines several. It must not be changed
// while in use.
type Profile []Rule

// Classify is a [retry.Classifier]. It matches its rules against the
// [exec.ExitError]s and the failures to start a command in the tree of an
// error, and classifies the rest of the tree as [retry.Classify] does; see
// [retry.Extend]. It abstains where p has no rule.
//
// It reads standard error from [exec.ExitError.Stderr], where [Run] and [Output]
// keep the first and the last 8 KiB of it, and [exec.Cmd.Output] keeps some. The Run of
// exec.Cmd keeps none.
func (p Profile) Classify(err error) retry.Verdict {
	return retry.Extend(p.node)(err)
}

// ClassifyExit classifies a command that ran elsewhere, by its error, exit code
// and standard error. It returns the verdict of the first matching rule. If none
// matches, it classifies err as a failure to start the command or as
// [retry.Classify] does; if these have no opinion, it abstains.
//
// err may be nil. An exit code of -1 means that there is none, as in
// [os.ProcessState.ExitCode]; a signal is then found in err, if err is or wraps
// an [exec.ExitError]. An exit code of 0 is a success and matches only rules
// with an Err. stderr may be of any length.
func (p Profile) ClassifyExit(err error, exitCode int, stderr string) retry.Verdict {
	exit := findExit(err)
	f := failure{
		is:     func(target error) bool { return errtree.Is(err, target) },
		code:   exitCode,
		stderr: stderr,
	}
	switch {
	case exitCode > 0:
		f.ran = true
	case exitCode < 0:
		f.ran = err == nil || exit != nil || stderr != ""
		f.signal = signalOf(exit)
	}
	switch v := p.verdict(&f); {
	case v != (retry.Verdict{}):
		return v
	case f.ran || exitCode == 0:
		return ranVerdict(err)
	default:
		return classifySystem(err)
	}
}

// node classifies one error of a tree.
func (p Profile) node(err error) retry.Verdict {
	system := systemVerdict(err)
	f := failure{is: func(target error) bool {
		if system != (retry.Verdict{}) {
			return errtree.Is(err, target) // system would hide what err wraps
		}
		return errtree.Matches(err, target)
	}}
	if exit, ok := err.(*exec.ExitError); ok && exit != nil { //nolint:errorlint // one node of a tree
		f.ran, f.code, f.signal, f.stderr = true, exit.ExitCode(), signalOf(exit), string(exit.Stderr)
	}
	if v := p.verdict(&f); v != (retry.Verdict{}) {
		return v
	}
	return system
}

func (p Profile) verdict(f *failure) retry.Verdict {
	for i := range p {
		if r := &p[i]; r.matches(f) {
			v := r.Verdict
			if v.Category == "" {
				v.Category = f.category(v.Class)
			}
			return v
		}
	}
	return retry.Verdict{}
}

func (r *Rule) matches(f *failure) bool {
	byError := r.Err != nil
	byExit := len(r.Codes) > 0 || r.MinCode > 0 || r.Stderr != nil
	switch {
	case byError && !f.is(r.Err),
		(byExit || !byError) && !f.ran,
		len(r.Codes) > 0 && !slices.Contains(r.Codes, f.status()),
		r.MinCode > 0 && f.code < r.MinCode:
		return false
	default:
		return r.Stderr == nil || r.Stderr.MatchString(f.text())
	}
}

// failure has the facts that rules match.
type failure struct {
	is      func(target error) bool
	ran     bool // the command was started, and did not succeed
	code    int
	signal  int
	stderr  string
	cleaned bool
}

// status returns the exit code that a shell would report.
func (f *failure) status() int {
	if f.signal > 0 {
		return signaled + f.signal
	}
	return f.code
}

// text returns standard error in the form that rules match.
func (f *failure) text() string {
	if !f.cleaned {
		f.stderr, f.cleaned = clean(f.stderr), true
	}
	return f.stderr
}

// category names a failure by its exit status.
func (f *failure) category(c retry.Class) string {
	status := f.status()
	switch {
	case !f.ran:
		return c.String()
	case status < 0:
		return "exit_unknown"
	case signaled < status && status <= lastSignaled:
		if name := signalNames[status-signaled]; name != "" {
			return "signal_" + name
		}
		return fmt.Sprintf("signal_%d", status-signaled)
	default:
		return fmt.Sprintf("exit_%d", status)
	}
}

// Shells report the death of a child by signal n as exit code 128 + n.
const (
	signaled     = 128
	lastSignaled = signaled + 31
)

// signalNames has the signals with the same number on every Unix.
var signalNames = map[int]string{
	1: "hangup", 2: "interrupt", 3: "quit", 4: "ill", 6: "abort", 8: "fpe",
	9: "killed", 11: "segv", 13: "pipe", 14: "alarm", 15: "terminated",
}

// signalOf returns the number of the signal that ended a process, or 0.
func signalOf(exit *exec.ExitError) int {
	if exit == nil || exit.ProcessState == nil {
		return 0
	}
	return killedBy(exit.ProcessState)
}

// findExit is errors.As for an *exec.ExitError, but ends on every tree.
func findExit(err error) *exec.ExitError {
	nodes := errtree.Nodes(errtree.MaxNodes)
	return findExitIn(err, &nodes)
}

func findExitIn(err error, nodes *errtree.Nodes) *exec.ExitError {
	for err != nil && nodes.Take() {
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // one node of a tree
			return exit
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			if exit := findExitIn(leg, nodes); exit != nil {
				return exit
			}
		}
		err = one
	}
	return nil
}

// Simple returns the rules of many scripts:
//
//	deadline exceeded                                      retryable
//	1, with timeout, rate limit or connection in stderr    retryable
//	2 or more                                              final
//	permission denied, invalid or not found in stderr      final
//	everything else                                        unknown: retried
//
// As the Classifier of a policy it has an opinion about every command that has
// run, so [Default] is not asked about these. A process that was killed by a
// signal has no exit code and matches the last line.
func Simple() Profile {
	is := simplePhrases()
	return Profile{
		{Err: context.DeadlineExceeded, Verdict: verdict.Transient("timeout")},
		{Stderr: is.deadline, Verdict: verdict.Transient("stderr_transient")},
		{Codes: []int{1}, Stderr: is.transient, Verdict: verdict.Transient("stderr_transient")},
		{MinCode: 2, Verdict: verdictFinal},
		{Stderr: is.final, Verdict: verdict.Permanent("stderr_invalid")},
		{Verdict: verdictUnknown},
	}
}

type simplePhraseSet struct{ deadline, transient, final *regexp.Regexp }

var simplePhrases = sync.OnceValue(func() simplePhraseSet {
	return simplePhraseSet{
		deadline:  regexp.MustCompile(`deadline exceeded`),
		transient: regexp.MustCompile(`timeout|rate limit|connection`),
		final:     regexp.MustCompile(`permission denied|invalid|not found`),
	}
})

// Curl returns the profile for curl's exit codes. With --fail, the status of the
// response decides about exit code 22. It has no opinion about other codes.
//
// https://everything.curl.dev/cmdline/exitcode.html
func Curl() Profile {
	return append(Profile{
		{Codes: []int{5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92, 95}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 3, 4, 23, 26, 27, 43, 60, 67, 77}, Verdict: verdictFinal},
	}, httpRules(22)...)
}

// Wget returns the profile for GNU wget's exit codes. The status of the
// response decides about exit code 8. It has no opinion about other codes.
//
// https://www.gnu.org/software/wget/manual/html_node/Exit-Status.html
func Wget() Profile {
	return append(Profile{
		{Codes: []int{4}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 6, 7}, Verdict: verdictFinal},
	}, httpRules(8)...)
}

// httpRules classify an exit code by the status in "returned error: 503" or
// "ERROR 503: Service Unavailable".
func httpRules(code int) Profile {
	codes, is := []int{code}, statuses()
	return Profile{
		{Codes: codes, Stderr: is.limited, Verdict: verdict.Throttled("stderr_rate_limit")},
		{Codes: codes, Stderr: is.transient, Verdict: verdict.Transient("stderr_transient")},
		{Codes: codes, Stderr: is.final, Verdict: verdict.Permanent("stderr_invalid")},
	}
}

type statusSet struct{ limited, transient, final *regexp.Regexp }

var statuses = sync.OnceValue(func() statusSet {
	of := func(class known.Class) *regexp.Regexp {
		var codes []string
		for status := 300; status <= 599; status++ {
			if known.Status(status, false).Class == class {
				codes = append(codes, strconv.Itoa(status))
			}
		}
		return regexp.MustCompile(`\berror:? (?:` + strings.Join(codes, "|") + `)\b`)
	}
	return statusSet{limited: of(known.RateLimited), transient: of(known.Retryable), final: of(known.Final)}
})

// SSH returns the profile for exit code 255, which is a failure of ssh itself:
// refused credentials and wrong usage are final, a failed connection is not. All
// other codes come from the remote command, and the profile has no opinion about
// them.
//
// https://man.openbsd.org/ssh#EXIT_STATUS
func SSH() Profile {
	codes, is := []int{255}, phrases()
	return Profile{
		{Codes: codes, Stderr: is.auth, Verdict: verdict.Permanent("stderr_auth")},
		{Codes: codes, Stderr: is.usage, Verdict: verdict.Permanent("stderr_usage")},
		{Codes: codes, Verdict: verdictRetryable},
	}
}

// Rsync returns the profile for rsync's exit codes. It has no opinion about other
// codes.
//
// https://download.samba.org/pub/rsync/rsync.1#EXIT_VALUES
func Rsync() Profile {
	return Profile{
		{Codes: []int{10, 12, 30, 35}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 3, 5}, Verdict: verdictFinal},
	}
}

var _ retry.Classifier = Classify

package retryexec

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

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

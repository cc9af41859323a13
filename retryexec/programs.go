package retryexec

import (
	"context"
	"regexp"
	"sync"

	"github.com/seed-5ff3c98e/retry"
)

// Simple returns the rule that many scripts have:
//
//	deadline exceeded                                      retryable
//	1, with timeout, rate limit or connection in stderr    retryable
//	2 or more                                              final
//	permission denied, invalid or not found in stderr      final
//	everything else                                        unknown: retried
//
// As the Classifier of a policy it leaves nothing to [Default] that has run; so
// it takes its place. A process that was killed by a signal has no exit code and
// is of the last kind.
func Simple() Profile {
	is := simplePhrases()
	return Profile{
		{Err: context.DeadlineExceeded, Verdict: again("timeout")},
		{Stderr: is.deadline, Verdict: again("stderr_transient")},
		{Codes: []int{1}, Stderr: is.transient, Verdict: again("stderr_transient")},
		{MinCode: 2, Verdict: verdictFinal},
		{Stderr: is.final, Verdict: final("stderr_invalid")},
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

// Curl returns what curl's exit codes say. With --fail, exit code 22 is judged by
// the status of the response. It has no opinion about other codes.
//
// https://everything.curl.dev/cmdline/exitcode.html
func Curl() Profile {
	return append(Profile{
		{Codes: []int{5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92, 95}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 3, 4, 23, 26, 27, 43, 60, 67, 77}, Verdict: verdictFinal},
	}, httpRules(22)...)
}

// Wget returns what GNU wget's exit codes say. Exit code 8 is judged by the
// status of the response. It has no opinion about other codes.
//
// https://www.gnu.org/software/wget/manual/html_node/Exit-Status.html
func Wget() Profile {
	return append(Profile{
		{Codes: []int{4}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 6, 7}, Verdict: verdictFinal},
	}, httpRules(8)...)
}

// httpRules judge an exit code by the status in "returned error: 503" or "ERROR
// 503: Service Unavailable".
func httpRules(code int) Profile {
	codes, is := []int{code}, statuses()
	return Profile{
		{Codes: codes, Stderr: is.limited, Verdict: limited("stderr_rate_limit")},
		{Codes: codes, Stderr: is.transient, Verdict: again("stderr_transient")},
		{Codes: codes, Stderr: is.final, Verdict: final("stderr_invalid")},
	}
}

type statusSet struct{ limited, transient, final *regexp.Regexp }

var statuses = sync.OnceValue(func() statusSet {
	return statusSet{
		limited:   regexp.MustCompile(`\berror:? (?:429|529)\b`),
		transient: regexp.MustCompile(`\berror:? (?:408|425|50[0234]|52[0-4]|530|59[89])\b`),
		final:     regexp.MustCompile(`\berror:? [345]\d\d\b`),
	}
})

// SSH returns what exit code 255 of ssh says, which is a failure of ssh itself:
// refused credentials and wrong usage are final, a failed connection is not. All
// other codes are those of the remote command, and it has no opinion about them.
//
// https://man.openbsd.org/ssh#EXIT_STATUS
func SSH() Profile {
	codes, is := []int{255}, phrases()
	return Profile{
		{Codes: codes, Stderr: is.auth, Verdict: final("stderr_auth")},
		{Codes: codes, Stderr: is.usage, Verdict: final("stderr_usage")},
		{Codes: codes, Verdict: verdictRetryable},
	}
}

// Rsync returns what rsync's exit codes say. It has no opinion about other codes.
//
// https://download.samba.org/pub/rsync/rsync.1#EXIT_VALUES
func Rsync() Profile {
	return Profile{
		{Codes: []int{10, 12, 30, 35}, Verdict: verdictRetryable},
		{Codes: []int{1, 2, 3, 5}, Verdict: verdictFinal},
	}
}

var _ retry.Classifier = Classify

package retryexec

import (
	"regexp"
	"strings"
	"sync"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

// Classify is a [retry.Classifier], [Profile.Classify] of [Default]. [Run] and
// [Output] use it after the Classifier of their policy.
func Classify(err error) retry.Verdict {
	return defaultProfile().Classify(err)
}

// ClassifyExit is [Profile.ClassifyExit] of [Default].
func ClassifyExit(err error, exitCode int, stderr string) retry.Verdict {
	return defaultProfile().ClassifyExit(err, exitCode, stderr)
}

// Default returns the profile for unknown commands. Its rules, in order:
//
//	signal, or 128 + n            SIGINT, SIGHUP, SIGPIPE final, others unknown
//	64–68 72 73 77 78 126 127     final       sysexits.h, the shell
//	69 71 74 75 76 124            retryable   sysexits.h, timeout(1)
//	quota exceeded (billing…)     final       stderr_quota
//	rate limit, status 429…       limited     stderr_rate_limit
//	permission denied, x509…      final       stderr_auth
//	timed out, connection reset…  retryable   stderr_transient
//	usage:, unknown flag…         final       stderr_usage
//	not found, invalid…           final       stderr_invalid, not with exit code 2
//	everything else               unknown     exit_1 and the like: retried
//
// The phrases match as whole words. Single words such as "timeout" or
// "connection" are not among them, because programs print them for other
// reasons. A Go program that panics exits with code 2, so "invalid" in its text
// says little.
//
// Sources: sysexits.h, the manuals of bash and GNU coreutils, and the messages
// of common programs.
func Default() Profile {
	is := phrases()
	return Profile{
		{Codes: []int{129, 130, 141}, Verdict: verdictFinal},
		{Codes: signalCodes(), Verdict: verdictUnknown},
		{Codes: []int{64, 65, 66, 67, 68, 72, 73, 77, 78, 126, 127}, Verdict: verdictFinal},
		{Codes: []int{69, 71, 74, 75, 76, 124}, Verdict: verdictRetryable},

		{Stderr: is.quota, Verdict: verdict.Permanent("stderr_quota")},
		{Stderr: is.limited, Verdict: verdict.Throttled("stderr_rate_limit")},
		{Stderr: is.auth, Verdict: verdict.Permanent("stderr_auth")},
		{Stderr: is.transient, Verdict: verdict.Transient("stderr_transient")},
		{Stderr: is.usage, Verdict: verdict.Permanent("stderr_usage")},
		{Codes: []int{2}, Verdict: verdictUnknown},
		{Stderr: is.invalid, Verdict: verdict.Permanent("stderr_invalid")},

		{Verdict: verdictUnknown},
	}
}

var defaultProfile = sync.OnceValue(Default)

// Verdicts whose category is named after the exit code.
var (
	verdictFinal     = retry.Verdict{Class: retry.Final}
	verdictRetryable = retry.Verdict{Class: retry.Retryable}
	verdictUnknown   = retry.Verdict{}
)

func signalCodes() []int {
	var codes []int
	for code := signaled + 1; code <= lastSignaled; code++ {
		codes = append(codes, code)
	}
	return codes
}

// phraseSet has the kinds of phrases in standard error. If a text has several,
// the kind that says more about the cause comes first: a refused connection is
// retried although the program calls the response "invalid".
type phraseSet struct{ quota, limited, auth, transient, usage, invalid *regexp.Regexp }

// phrases compiles the patterns at the first use, so that programs that only
// link this package do not pay for it.
var phrases = sync.OnceValue(func() phraseSet {
	return phraseSet{
		quota: regexp.MustCompile(`(?s)\bquota exceeded\b.*\b(?:billing|daily)|\b(?:billing|daily).*\bquota exceeded\b`),

		limited: regexp.MustCompile(words(
			`too many requests`, `toomanyrequests`, `slow down`, `quota exceeded`, `secondary rate`,
			`rate_?limit_?exceeded`,
		) +
			// Does not match a setting: rate_limit=5.
			`|\brate[ -]?limit(?:s|ed|ing|er)?(?:[^\w=]|$)` +
			// ThrottlingException, RequestThrottled.
			`|\b(?:request)?throttl` +
			// The code of S3.
			`|\(slowdown\)` +
			// HTTP/1.1 429, status code: 429, returned error: 429.
			`|\b(?:http|status|error)(?:/\d(?:\.\d)?)?(?:[ :=_"(-]|code|status|error)+429\b`),

		auth: regexp.MustCompile(words(
			`permission denied`, `access denied`, `unauthorized`, `authentication failed`, `forbidden`,
			`denied: requested access`, `bad credentials`, `host key verification failed`,
			`certificate verify failed`, `ssl certificate problem`, `unable to locate credentials`,
		) + `|\bx509:`),

		transient: regexp.MustCompile(words(
			`timed out`, `i/o timeout`, `deadline exceeded`, `timeout exceeded`, `tls handshake timeout`,
			`gateway time-?out`,
			`connection (?:refused|reset|closed|aborted|lost|broken)`, `broken pipe`,
			`(?:unexpected|early) eof`, `remote end hung up`,
			`temporary failure in name resolution`, `could not resolve`, `server misbehaving`,
			`network is unreachable`, `no route to host`,
			`service unavailable`, `bad gateway`, `internal server error`,
			`temporarily unavailable`, `try again`,
			`resource busy`, `could not get lock`, `database is locked`, `deadlock`, `index\.lock`,
			`(?:connection|operation) (?:[^\n]{1,80} )?(?:was refused|is in progress)`, `acquiring the state lock`,
			`(?:error|code|errno) (?:eai_again|econnreset|econnrefused|etimedout|enetunreach|ehostunreach|epipe)`,
			`object has been modified`, `connection unexpectedly closed`,
			`database system is (?:starting up|shutting down|in recovery mode)`,
		)),

		usage: regexp.MustCompile(words(`unknown (?:flag|option|command)`, `unrecognized option`) +
			// At the beginning, or after the program's name. Does not match "disk
			// usage: 80%".
			`|(?m:(?:^\s*|: )usage:)`),

		invalid: regexp.MustCompile(words(
			`command not found`, `no such file or directory`, `not found`, `does not exist`, `invalid`,
			`syntax error`, `no space left on device`, `unsupported`, `already exists`,
			`not a git repository`, `unable to locate package`, `no matching distribution`, `fetch first`, `non-fast-forward`,
		)),
	}
})

// words returns a pattern for phrases that begin and end with whole words.
func words(phrases ...string) string {
	return `\b(?:` + strings.Join(phrases, `|`) + `)\b`
}

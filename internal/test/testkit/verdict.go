package testkit

import "github.com/seed-5ff3c98e/retry"

// The verdicts are written out here, because what makes them for users, package verdict, is judged by
// tests with these.

// Final is the verdict on a failure that a repetition would not change.
func Final(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

// MayRetry is the verdict on a failure of an operation that may have taken effect.
func MayRetry(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

// CanRetry is the verdict on a failure of an operation that certainly had no effect.
func CanRetry(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: category}
}

// MayLimit is MayRetry of a rate limit.
func MayLimit(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, Category: category}
}

// CanLimit is CanRetry of a rate limit.
func CanLimit(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: category}
}

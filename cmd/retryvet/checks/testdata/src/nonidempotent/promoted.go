//go:build go1.27

package nonidempotent

import "github.com/seed-5ff3c98e/retry"

type named struct {
	retry.Policy

	NonIdempotents bool
}

var (
	promoted = named{
		NonIdempotent: true,
		Classifier:    retry.On(retry.Retryable, errBusy), // want `this retries nothing`
	}
	other = named{NonIdempotents: true, Classifier: retry.On(retry.Retryable, errBusy)}
)

package nonidempotent

import (
	"errors"

	"github.com/seed-5ff3c98e/retry"
)

var errBusy = errors.New("busy")

var (
	wrong = retry.Policy{
		NonIdempotent: true,
		Classifier:    retry.Chain(retry.On(retry.Final, errBusy), retry.On(retry.Retryable, errBusy)), // want `this retries nothing`
	}
	final      = retry.Policy{NonIdempotent: true, Classifier: retry.On(retry.Final, errBusy)}
	idempotent = retry.Policy{Classifier: retry.On(retry.Retryable, errBusy)}
)

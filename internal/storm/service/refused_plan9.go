package service

import (
	"errors"

	"github.com/seed-5ff3c98e/retry"
)

// On Plan 9 an error of the system is a text, which nobody classifies.
var errRefused = retry.Mark(errors.New("connection refused"),
	retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "conn_refused"})

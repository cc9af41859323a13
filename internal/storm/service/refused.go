package service

import (
	"errors"

	"github.com/seed-5ff3c98e/retry"
)

// errRefused is marked as a driver that saw the dial fail would mark it.
var errRefused = retry.Mark(errors.New("connection refused"),
	retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "conn_refused"})

package service

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// failure is how an attempt can fail.
type failure uint8

const (
	timedOut failure = iota // maybe served, too late
	refused                 // nobody listens
	answered                // with an error
	shed                    // the queue is full
	limited                 // the quota is used up
)

// The statuses of HTTP, whose package would be most of a program that simulates.
const (
	internalServerError = 500
	serviceUnavailable  = 503
	tooManyRequests     = 429
)

// err returns what a client would see, for the policy to classify. A refusal has the hint,
// if that is not 0.
func (f failure) err(hint time.Duration) error {
	switch f {
	case timedOut:
		return context.DeadlineExceeded
	case refused:
		return errRefused
	case answered:
		return statusError(internalServerError)
	case limited:
		return refusal(tooManyRequests, retry.RateLimited, hint)
	default:
		return refusal(serviceUnavailable, retry.Retryable, hint)
	}
}

// refusal returns the error of a status that may come with a Retry-After, with the verdict
// that retryhttp has about it.
func refusal(status statusError, class retry.Class, hint time.Duration) error {
	if hint == 0 {
		return status
	}
	return retry.Mark(status, retry.Verdict{Class: class, After: hint, NotApplied: true})
}

type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

func (e statusError) HTTPStatusCode() int { return int(e) }

package service

import (
	"context"
	"fmt"
)

// failure is how an attempt can fail.
type failure uint8

const (
	timedOut failure = iota // maybe served, too late
	refused                 // nobody listens
	answered                // with an error
	shed                    // the queue is full
)

// The statuses of HTTP, whose package would be most of a program that simulates.
const (
	internalServerError = 500
	serviceUnavailable  = 503
)

// err returns what a client would see, for the policy to classify.
func (f failure) err() error {
	switch f {
	case timedOut:
		return context.DeadlineExceeded
	case refused:
		return errRefused
	case answered:
		return statusError(internalServerError)
	default:
		return statusError(serviceUnavailable)
	}
}

type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

func (e statusError) HTTPStatusCode() int { return int(e) }

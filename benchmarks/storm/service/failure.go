package service

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
)

// failure is how an attempt can fail.
type failure uint8

const (
	timedOut failure = iota // maybe served, too late
	refused                 // nobody listens
	answered                // with an error
	shed                    // the queue is full
)

// err returns what a client would see, for the policy to classify.
func (f failure) err() error {
	switch f {
	case timedOut:
		return context.DeadlineExceeded
	case refused:
		return syscall.ECONNREFUSED
	case answered:
		return statusError(http.StatusInternalServerError)
	default:
		return statusError(http.StatusServiceUnavailable)
	}
}

type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

func (e statusError) HTTPStatusCode() int { return int(e) }

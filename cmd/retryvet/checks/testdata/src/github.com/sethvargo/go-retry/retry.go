// Package retry is a stub.
package retry

import (
	"context"
	"time"
)

type Backoff interface{}

func NewExponential(time.Duration) Backoff                           { return nil }
func WithMaxRetries(uint64, Backoff) Backoff                         { return nil }
func Do(context.Context, Backoff, func(context.Context) error) error { return nil }
func RetryableError(err error) error                                 { return err }

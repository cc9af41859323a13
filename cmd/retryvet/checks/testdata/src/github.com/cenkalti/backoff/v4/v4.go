// Package backoff is a stub.
package backoff

import (
	"context"
	"time"
)

type (
	Operation func() error
	BackOff   interface{ NextBackOff() time.Duration }
)

type ExponentialBackOff struct{ MaxElapsedTime time.Duration }

func (*ExponentialBackOff) NextBackOff() time.Duration { return 0 }

func NewExponentialBackOff() *ExponentialBackOff       { return nil }
func Retry(Operation, BackOff) error                   { return nil }
func WithContext(b BackOff, _ context.Context) BackOff { return b }
func WithMaxRetries(b BackOff, _ uint64) BackOff       { return b }
func Permanent(err error) error                        { return err }

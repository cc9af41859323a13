package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

func main() {
	policy := &retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: 200 * time.Millisecond},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	calls := 0
	err := policy.Execute(ctx, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection lost")
		}
		return nil
	})
	fmt.Println(calls, "calls:", err)
}

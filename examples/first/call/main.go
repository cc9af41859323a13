package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-5ff3c98e/retry"
)

func main() {
	calls, policy := 0, &retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Initial: 1e6}}
	err := policy.Execute(context.Background(), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection lost")
		}
		return nil
	})
	fmt.Println(calls, "calls:", err)
}

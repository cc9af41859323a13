package main

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// watch loads a file again whenever its content differs from seen, until the context
// ends. It sends the result of each load: nil, or the error because of which the
// policies stay the same. It reads the file ten times a second, which works on every
// file system, also for a ConfigMap of Kubernetes. If a signal announces a new file,
// load it at the signal instead.
func watch(ctx context.Context, file string, seen []byte, policies *retrypolicies.Policies, reloads chan<- error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		data, err := os.ReadFile(file)
		if err != nil || bytes.Equal(data, seen) {
			continue // a file that is missing for a moment changes nothing
		}
		seen = data
		select {
		case reloads <- policies.Load(file, data):
		case <-ctx.Done():
			return
		}
	}
}

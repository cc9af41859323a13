package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// A file that another program is about to write. That it is missing is not a failure;
// that it cannot be read is one.
func Example_fileToAppear() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "result.txt")
	time.AfterFunc(20*time.Millisecond, func() { // with a rename, so that no reader gets half of it
		if err := os.WriteFile(name+".tmp", []byte("42"), 0o600); err == nil {
			_ = os.Rename(name+".tmp", name)
		}
	})

	policy := &retry.Policy{
		Timeout:    time.Minute,
		Backoff:    retry.Exponential{Initial: 10 * time.Millisecond},
		MaxDelay:   time.Second,
		Jitter:     retry.EqualJitter,
		Classifier: retry.On(retry.Pending, fs.ErrNotExist),
	}
	content, err := retry.Do(context.Background(), policy, func(context.Context) ([]byte, error) {
		return os.ReadFile(name)
	})
	fmt.Println(string(content), err)
	// Output: 42 <nil>
}

// Policies with names, in a file of the program.
func Example_policiesByName() {
	file := []byte(`{
		"search":   {"max_attempts": 2, "attempt_timeout": "300ms", "backoff": {"constant": "50ms"}},
		"payments": {"max_attempts": 5, "non_idempotent": true, "timeout": "1m"}
	}`)
	policies := map[string]*retry.Policy{}
	if err := json.Unmarshal(file, &policies); err != nil {
		fmt.Println(err) // every fault at once, with its path and value
		return
	}
	for name, policy := range policies {
		policy.Name = name              // for errors and events
		policy.Budget = &retry.Budget{} // fields that are not data are set in code
	}

	policy, ok := policies["search"]
	if !ok {
		fmt.Println(errors.New("no policy has the name search"))
		return
	}
	fmt.Println(policy)
	// Output: search: 2 attempts, constant 50ms, ±10% jitter: waits 45ms–55ms; attempt timeout 300ms
}

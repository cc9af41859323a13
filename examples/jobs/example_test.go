package jobs_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

func ExampleCommand() {
	err := jobs.Command(context.Background(), "go", "list", "errors")
	fmt.Println(err)
	// Output:
	// errors
	// <nil>
}

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

// While a cluster starts, a name is not in the DNS yet, and a certificate is not valid yet.
// Both are Final otherwise, because they are mistakes more often.
func Example_notYet() {
	notYet := func(err error) retry.Verdict {
		v := retry.Classify(err)
		var invalid x509.CertificateInvalidError
		switch {
		case v.Category == "dns_not_found":
			v.Class = retry.Pending
		case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(invalid.Cert.NotBefore):
			v.Class = retry.Pending
		}
		return v
	}
	policy := &retry.Policy{Timeout: time.Minute, Backoff: retry.Constant(10 * time.Millisecond), Classifier: notYet}

	attempts := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if attempts++; attempts < 5 {
			return &net.DNSError{Err: "no such host", Name: "db.default.svc", IsNotFound: true}
		}
		return nil
	})
	fmt.Println(attempts, err)
	// Output: 5 <nil>
}

// While a mirror is synchronized, apt gets a 404 for an index that is there a minute later.
func Example_mirrorInSync() {
	profile := append(retryexec.Profile{{
		Codes: []int{100}, Stderr: regexp.MustCompile(`\b404\b|hash sum mismatch`),
		Verdict: retry.Verdict{Class: retry.Retryable, Category: "mirror_sync"},
	}}, retryexec.Default()...)

	const stderr = "E: Failed to fetch http://deb.debian.org/debian/dists/sid/InRelease  404  Not Found"
	fmt.Println(retryexec.ClassifyExit(nil, 100, stderr).Class)
	fmt.Println(profile.ClassifyExit(nil, 100, stderr).Class)
	// Output:
	// final
	// retryable
}

// untilClosing is a Backoff of your own: every minute, until a shop closes.
type untilClosing struct {
	now     func() time.Time
	closing time.Time
}

// Delay returns a negative delay to stop.
func (b untilClosing) Delay(int) time.Duration {
	if b.now().Add(time.Minute).After(b.closing) {
		return -1
	}
	return time.Minute
}

func Example_backoffThatStops() {
	closed := untilClosing{now: time.Now, closing: time.Now()}
	policy := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: closed}
	err := policy.Execute(context.Background(), func(context.Context) error { return errors.New("sold out") })
	fmt.Println(errors.Is(err, retry.StopBackoff))
	// Output: true
}

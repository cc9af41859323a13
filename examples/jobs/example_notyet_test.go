package jobs_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

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

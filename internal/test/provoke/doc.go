// Package provoke makes the standard library return real errors, on the loopback
// interface: it has servers and connections that misbehave, and functions that return
// one error each. If a new version of Go reports a failure in another way, tests of
// the classification fail.
//
// Everything ends with its test. If a step fails that must not fail, the test fails.
package provoke

import (
	"testing"
	"time"
)

// Soon is a timeout that is meant to expire.
const Soon = 20 * time.Millisecond

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

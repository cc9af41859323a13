package classify_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestNonIdempotentTrusts checks on what a repetition of an operation that is not
// idempotent may rest: a mark, or the policy's Classifier. What an errno or an answer says
// is about one step of the operation, and there may have been others before it.
func TestNonIdempotentTrusts(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.unix {
			for _, step := range []string{"dial", "write", "read"} {
				err := &net.OpError{Op: step, Net: "tcp", Err: os.NewSyscallError(step, errno)}
				assertRepeats(t, false, nil, err)
				assertRepeats(t, step == "dial" && tt.want.Class != retry.Final, retry.Classify, err)
				assertRepeats(t, true, nil, retry.MarkRetryable(err))
			}
		}
	}
	for _, answer := range []error{saysStatusCodeError(says(429)), saysSQLStateError(says("40001"))} {
		assertRepeats(t, false, nil, answer)
		assertRepeats(t, true, retry.Classify, answer)
	}
	assertRepeats(t, false, retry.On(retry.Retryable, errBoom), errBoom)
	proof := func(error) retry.Verdict { return canRetry("") }
	assertRepeats(t, true, proof, errBoom)
}

// assertRepeats checks whether an operation that is not idempotent is repeated after err,
// by every driver of the root package.
func assertRepeats(t *testing.T, want bool, classifier retry.Classifier, err error) {
	t.Helper()
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), NonIdempotent: true, Classifier: classifier}
	fn, calls := testkit.Failing(err)
	_ = p.Execute(context.Background(), fn)
	assert.Equal(t, want, *calls == 2, "Execute, %#v", err)

	assert.Equal(t, want, p.Next(retry.State{}, err, time.Time{}).Retry, "Next, %#v", err)
	assert.Equal(t, want, p.Decide(retry.State{}, p.Classify(err), time.Time{}).Retry, "Decide, %#v", err)

	call := retry.Call{Policy: p}
	require.True(t, call.Next(context.Background()))
	assert.Equal(t, want, call.End(err).Retry, "Call, %#v", err)

	if classifier == nil { // the driver of a protocol answers for what it says
		call = retry.Call{Policy: p, Protocol: func(error) retry.Verdict { return canRetry("") }}
		require.True(t, call.Next(context.Background()))
		assert.True(t, call.End(err).Retry, "a Call with Classify, %#v", err)
	}
}

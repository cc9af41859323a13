package classify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestErrorTimeoutAndTemporary(t *testing.T) {
	t.Parallel()
	last := func(err error) *retry.Error { return &retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: err} }
	yes, no := says(true), says(false)
	for _, tt := range []struct {
		name      string
		err       *retry.Error
		timeout   bool
		temporary bool
	}{
		{"nil", nil, false, false},
		{"zero", &retry.Error{}, false, false},
		{"not started", &retry.Error{Stop: retry.StopCanceled, Cause: context.Canceled}, false, false},
		{"deadline", &retry.Error{Stop: retry.StopDeadline, Err: errNobody}, true, true},
		{"deadline before the start", &retry.Error{Stop: retry.StopDeadline, Cause: context.DeadlineExceeded}, true, true},
		{"no time left", &retry.Error{Attempts: 3, Stop: retry.StopElapsed, Err: errNobody}, false, false},
		{"the cause is not asked", &retry.Error{Stop: retry.StopCanceled, Cause: os.ErrDeadlineExceeded}, false, false},

		{"the last attempt ran out of time", last(fmt.Errorf("x: %w", os.ErrDeadlineExceeded)), true, true},
		{"another failure", last(syscall.ECONNREFUSED), false, false},
		{"temporary only", last(fmt.Errorf("x: %w", syscall.EMFILE)), false, true},
		{"timeout only", last(saysTimeoutError(yes)), true, false},
		{"temporary, says a method", last(saysTemporaryError(yes)), false, true},
		{"nobody knows", last(errNobody), false, false},

		{"one of two", last(errors.Join(errNobody, os.ErrDeadlineExceeded)), true, true},
		{"the outermost answer", last(overTimeoutError{no, os.ErrDeadlineExceeded}), false, true},
		{"the first of two answers", last(errors.Join(saysTimeoutError(no), os.ErrDeadlineExceeded)), false, true},
		{"deep in a URL", last(&url.Error{Op: "Get", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}), true, true},
		{"a dial", last(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}), true, true},
		{"a refused dial", last(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), false, false},

		{"an inner policy", last(fmt.Errorf("x: %w", last(os.ErrDeadlineExceeded))), true, true},
		{"an inner deadline", last(&url.Error{Op: "Get", Err: &retry.Error{Stop: retry.StopDeadline}}), true, true},
		{"an inner nil", last((*retry.Error)(nil)), false, false},

		{"a method that panics", last((*panicsTimeoutError)(nil)), false, false},
		{"a method that panics, and one that does not", last(errors.Join((*panicsTimeoutError)(nil), os.ErrDeadlineExceeded)), true, true},
		{"a nil URL", last((*url.Error)(nil)), false, false},
		{"a nil dial", last((*net.OpError)(nil)), false, false},
		{"a wrapper that panics", last(throwingError{}), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.timeout, tt.err.Timeout(), "timeout")
			assert.Equal(t, tt.temporary, tt.err.Temporary(), "temporary")
			client := &url.Error{Op: "Get", Err: tt.err}
			assert.Equal(t, tt.timeout, client.Timeout(), "timeout of an http.Client")
			assert.Equal(t, tt.temporary, client.Temporary(), "temporary of an http.Client")
		})
	}
}

type panicsTimeoutError struct{ yes bool }

// TestErrorTimeoutEnds on trees without end, and on trees that are so wide that
// visiting all of it would take forever.
func TestErrorTimeoutEnds(t *testing.T) {
	t.Parallel()
	loop := &endlessError{}
	fan := &branchingError{}
	own := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	own.Err = own
	ownURL := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	ownURL.Err = &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: ownURL}}
	ownJoin := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	ownJoin.Err = errors.Join(fmt.Errorf("x: %w", error(fan)), ownJoin, ownJoin)
	wide := errNobody
	for range 100 { // 2¹⁰⁰ paths
		wide = errors.Join(wide, wide)
	}
	for name, err := range map[string]error{
		"loop": loop, "fan": fan, "its own": own, "its own by way of a URL": ownURL,
		"its own by way of a join": ownJoin, "wide": wide,
	} {
		e := &retry.Error{Attempts: 1, Stop: retry.StopAttempts, Err: err}
		done := make(chan bool, 1)
		go func() { done <- e.Timeout() || e.Temporary() || (&url.Error{Err: e}).Temporary() }()
		select {
		case yes := <-done:
			assert.False(t, yes, name)
		case <-time.After(10 * time.Second):
			assert.Fail(t, "does not end", name)
		}
	}
	// An answer before the limit counts.
	found := &retry.Error{Attempts: 1, Stop: retry.StopAttempts, Err: errors.Join(os.ErrDeadlineExceeded, loop)}
	assert.True(t, found.Timeout())
	assert.True(t, found.Temporary())
}

// TestErrorIsANetError checks that code that looks for a net.Error finds the
// Error itself, and that this changes nothing for the classification.
func TestErrorIsANetError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
	err := p.Execute(ctx, func(context.Context) error { return &net.DNSError{IsNotFound: false} })
	e := testkit.As[*retry.Error](t, err)
	require.Equal(t, retry.StopDeadline, e.Stop)

	for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), &url.Error{Op: "Get", Err: err}} {
		found := testkit.As[net.Error](t, err)
		assert.True(t, found.Timeout(), "%T", err)
	}
	found := testkit.As[net.Error](t, fmt.Errorf("wrapped: %w", err))
	assert.Same(t, e, found)

	for reason := retry.StopNone; reason <= retry.StopBackoff; reason++ {
		want := wantFinal("gave_up")
		switch reason {
		case retry.StopDeadline, retry.StopCanceled, retry.StopTimeout:
			want = mayRetry("gave_up")
		case retry.StopRetryAfter:
			want = mayLimit("gave_up")
		}
		assertClassified(t, want, &retry.Error{Attempts: 1, Stop: reason, Err: os.ErrDeadlineExceeded})
	}
	assertClassified(t, abstains, (*retry.Error)(nil))
}

func (*panicsTimeoutError) Error() string     { return "panics" }
func (e *panicsTimeoutError) Timeout() bool   { return e.yes }
func (e *panicsTimeoutError) Temporary() bool { return e.yes }

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

// errorKinds has the parts of random error trees.
var errorKinds = testkit.Kinds{Leaves: leaves, Wraps: wraps}

// leaves are errors without a cause.
var leaves = []func(detail byte) error{
	func(byte) error { return errNobody },
	func(byte) error { return nil },
	func(detail byte) error { return syscall.Errno(detail) },
	func(detail byte) error { return saysStatusCodeError(says(int(detail) + 350)) },
	func(detail byte) error { return saysRetryAfterError(says(time.Duration(int8(detail)))) },
	func(detail byte) error {
		return statusHintError{says(400 + int(detail)), says(time.Duration(detail) * time.Second)}
	},
	func(detail byte) error { return yesNo[int(detail)%len(yesNo)].err(says(detail >= 128)) },
	func(detail byte) error { return yesNo[int(detail)%len(yesNo)].err(nil) },
	func(detail byte) error {
		return []error{
			io.EOF, io.ErrUnexpectedEOF, fs.ErrClosed, net.ErrClosed, fs.ErrNotExist,
			context.Canceled, context.DeadlineExceeded, retry.ErrLost,
		}[detail%8]
	},
	func(detail byte) error {
		return &net.DNSError{IsTimeout: detail&1 > 0, IsTemporary: detail&2 > 0, IsNotFound: detail&4 > 0}
	},
	func(detail byte) error {
		return saysSQLStateError(says([]string{"40001", "40003", "53300", "23505"}[detail%4]))
	},
	func(byte) error { return (*retry.Error)(nil) },
	func(byte) error { return (*net.OpError)(nil) },
}

// wraps are errors with a cause, which may be nil.
var wraps = []func(detail byte, cause error) error{
	func(_ byte, cause error) error { return fmt.Errorf("x: %w", cause) },
	func(_ byte, cause error) error { return &net.OpError{Op: "dial", Err: cause} },
	func(_ byte, cause error) error { return &net.OpError{Op: "read", Err: cause} },
	func(_ byte, cause error) error { return &url.Error{Op: "Get", Err: cause} },
	func(_ byte, cause error) error { return &fs.PathError{Op: "open", Err: cause} },
	func(_ byte, cause error) error { return &net.DNSError{IsTemporary: true, UnwrapErr: cause} },
	func(d byte, cause error) error { return overHintError{says(time.Duration(int8(d))), cause} },
	func(d byte, cause error) error { return overTimeoutError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overSafeError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overRetryableError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overStatusError{says(350 + int(d)), cause} },
	func(_ byte, cause error) error { return overStatusError{nil, cause} },
	func(d byte, cause error) error {
		stop := retry.StopReason(d % 9)
		return &retry.Error{Attempts: 1, Stop: stop, RetryAfter: time.Duration(int8(d)), Err: cause}
	},
	func(_ byte, cause error) error { return retry.MarkFinal(cause) },
	func(_ byte, cause error) error { return retry.MarkRetryable(cause) },
	func(d byte, cause error) error { return retry.MarkRateLimited(cause, time.Duration(int8(d))) },
	func(d byte, cause error) error {
		return retry.Mark(cause, retry.Verdict{Class: retry.Class(d), Category: "custom"})
	},
}

// checkErrorTree checks the invariants of every tree.
func checkErrorTree(t *testing.T, data []byte) {
	t.Helper()
	tree := errorKinds.Tree(data)
	tree.Check(t, retry.Classify)
	err := tree.Err()
	v := retry.Classify(err)

	assert.LessOrEqual(t, v.Class, retry.Pending)
	if v.Class == retry.Unknown {
		assert.Zero(t, v.After, "a hint is an opinion")
	}
	acted := (&retry.Policy{}).Classify(err)
	if acted.NotApplied != v.NotApplied {
		v.NotApplied = false // only a mark says so to a policy
	}
	assert.Equal(t, v, acted, "zero policy")
	job := (&retry.Policy{}).Next(retry.State{}, err, time.Time{}).Verdict
	for name, other := range tree.Reordered() {
		assert.Equal(t, job, (&retry.Policy{}).Next(retry.State{}, other, time.Time{}).Verdict, "%s:\n%#v\n%#v", name, err, other)
	}
	if err != nil {
		assert.NotPanics(t, func() { _ = retry.MarkFinal(err).Error() })
	}
}

// TestClassifyRandomTrees is the fuzz test below with trees that it rarely
// finds in the time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	testkit.Random(t, 10_000, func(data []byte) { checkErrorTree(t, data) })
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{192, 2, 2, 111, 2, 104})                   // two errnos
	f.Add([]byte{192, 3, 4, 2, 4, 5, 91, 9, 0, 0})          // hints
	f.Add([]byte{192, 2, 81, 0, 2, 111, 82, 0, 2, 104})     // marks
	f.Add([]byte{86, 0, 192, 2, 2, 97, 2, 111})             // a dial
	f.Add([]byte{192, 2, 97, 2, 2, 111, 97, 7, 0, 0})       // inner policies
	f.Add([]byte{92, 1, 192, 3, 11, 0, 90, 0, 8, 6, 96, 0}) // panics
	f.Fuzz(func(t *testing.T, data []byte) { checkErrorTree(t, data) })
}

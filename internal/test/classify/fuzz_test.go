package classify_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

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
	throughGiveUp := retry.ThroughGiveUp(err)
	for name, other := range tree.Reordered() {
		assert.Equal(t, throughGiveUp, retry.ThroughGiveUp(other), "%s:\n%#v\n%#v", name, err, other)
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

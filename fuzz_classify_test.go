package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// errorPlan is the shape of an error tree, so that the same tree can be built
// with the legs of its joins in another order.
type errorPlan struct {
	kind, detail byte
	legs         []*errorPlan
}

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

// planError reads a tree from bytes; nodes is how many it may still have.
func planError(data *[]byte, nodes *int) *errorPlan {
	*nodes--
	if len(*data) < 2 || *nodes <= 0 {
		return &errorPlan{}
	}
	p := &errorPlan{kind: (*data)[0], detail: (*data)[1]}
	*data = (*data)[2:]
	legs := 0
	switch {
	case p.isJoin():
		legs = int(p.detail % 5)
	case p.isWrap():
		legs = 1
	}
	for range legs {
		p.legs = append(p.legs, planError(data, nodes))
	}
	return p
}

func (p *errorPlan) isJoin() bool { return p.kind >= 192 }
func (p *errorPlan) isWrap() bool { return p.kind >= 80 && p.kind < 192 }

// build makes the tree. Arrange puts the legs of joins into another order.
func (p *errorPlan) build(arrange func([]error)) error {
	var legs []error
	for _, leg := range p.legs {
		legs = append(legs, leg.build(arrange))
	}
	switch {
	case p.isJoin():
		arrange(legs)
		return errors.Join(legs...)
	case p.isWrap():
		return wraps[int(p.kind)%len(wraps)](p.detail, legs[0])
	default:
		return leaves[int(p.kind)%len(leaves)](p.detail)
	}
}

// checkErrorTree checks what holds for every tree.
func checkErrorTree(t *testing.T, data []byte) {
	t.Helper()
	nodes := 50 // and their children: far from 1000
	plan := planError(&data, &nodes)
	err := plan.build(func([]error) {})
	v := retry.Classify(err)

	assert.LessOrEqual(t, v.Class, retry.Pending)
	assert.GreaterOrEqual(t, v.After, time.Duration(0))
	if v.Class == retry.Unknown {
		assert.Zero(t, v.After, "a hint is an opinion")
	}
	assert.Equal(t, v, retry.Classify(err), "again")
	assert.Equal(t, v, (&retry.Policy{}).Classify(err), "zero policy")

	throughGiveUp := retry.ThroughGiveUp(err)
	mixed := plan.build(func(legs []error) {
		rand.Shuffle(len(legs), func(i, j int) { legs[i], legs[j] = legs[j], legs[i] })
	})
	for name, other := range map[string]error{"reversed": plan.build(slices.Reverse[[]error]), "mixed": mixed} {
		assert.Equal(t, v, retry.Classify(other), "%s:\n%#v\n%#v", name, err, other)
		assert.Equal(t, throughGiveUp, retry.ThroughGiveUp(other), "%s:\n%#v\n%#v", name, err, other)
	}
	if err == nil {
		assert.Zero(t, v)
		return
	}
	assert.Equal(t, v, retry.Classify(errors.Join(err, err)), "twice")
	assert.Equal(t, v, retry.Classify(errors.Join(nil, errNobody, fmt.Errorf("x: %w", err))), "in company")
	assert.Equal(t, retry.Verdict{Class: retry.Final}, retry.Classify(retry.MarkFinal(err)), "marked")
	assert.NotPanics(t, func() { _ = retry.MarkFinal(err).Error() })
}

// TestClassifyRandomTrees is the fuzz test below with trees that it rarely
// finds in the time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		data := make([]byte, r.IntN(60))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkErrorTree(t, data)
		if t.Failed() {
			return // one counterexample is enough to read
		}
	}
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

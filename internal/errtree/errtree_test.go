package errtree_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// panicsError panics in every method but Error.
type panicsError struct{}

func (panicsError) Error() string { return "panics" }
func (panicsError) Is(error) bool { panic("Is") }
func (panicsError) Unwrap() error { panic("Unwrap") }

type panicsManyError struct{}

func (panicsManyError) Error() string   { return "panics" }
func (panicsManyError) Unwrap() []error { panic("Unwrap") }

// slicesError cannot be compared.
type slicesError []string

func (slicesError) Error() string { return "slice" }

// pointerError panics in Unwrap if it is nil.
type pointerError struct{ cause error }

func (*pointerError) Error() string   { return "pointer" }
func (e *pointerError) Unwrap() error { return e.cause }

// loopError refers to itself.
type loopError struct{}

func (e *loopError) Error() string { return "loop" }
func (e *loopError) Unwrap() error { return e }

// fanError refers to itself twice.
type fanError struct{}

func (e *fanError) Error() string   { return "fan" }
func (e *fanError) Unwrap() []error { return []error{e, e} }

// matchesError matches target by its Is method.
type matchesError struct{ target error }

func (matchesError) Error() string          { return "matches" }
func (e matchesError) Is(target error) bool { return target == e.target }

func TestUnwrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		err     error
		one     error
		several []error
	}{
		{"nil", nil, nil, nil},
		{"leaf", io.EOF, nil, nil},
		{"one", fmt.Errorf("x: %w", io.EOF), io.EOF, nil},
		{"two verbs", fmt.Errorf("%w: %w", io.EOF, fs.ErrExist), nil, []error{io.EOF, fs.ErrExist}},
		{"join", errors.Join(io.EOF, nil, fs.ErrExist), nil, []error{io.EOF, fs.ErrExist}},
		{"no cause", &pointerError{}, nil, nil},
		{"typed nil", (*pointerError)(nil), nil, nil},
		{"panic", panicsError{}, nil, nil},
		{"panic of several", panicsManyError{}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			one, several := errtree.Unwrap(tt.err)
			assert.Equal(t, tt.one, one)
			assert.Equal(t, tt.several, several)
		})
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	result, ok := errtree.Try(func() int { return 7 })
	assert.True(t, ok)
	assert.Equal(t, 7, result)

	for _, method := range []func() int{
		nil,
		func() int { panic("x") },
		func() int { panic(nil) },
		func() int { return *(*int)(nil) },
		func() int { return []int{}[result] },
	} {
		result, ok := errtree.Try(method)
		assert.False(t, ok)
		assert.Zero(t, result)
	}
}

// TestTryLetsGoexitPass because it is not a panic, and the goroutine has to end.
func TestTryLetsGoexitPass(t *testing.T) {
	t.Parallel()
	survived := make(chan bool, 1)
	go func() {
		defer close(survived)
		errtree.Try(func() int { runtime.Goexit(); return 0 })
		survived <- true
	}()
	assert.False(t, <-survived)
}

func TestIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		err, target error
		want        bool
	}{
		{"itself", io.EOF, io.EOF, true},
		{"another", io.EOF, fs.ErrExist, false},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", io.EOF)), io.EOF, true},
		{"first of a join", errors.Join(io.EOF, fs.ErrExist), io.EOF, true},
		{"last of a join", errors.Join(io.EOF, fs.ErrExist), fs.ErrExist, true},
		{"deep in joins", errors.Join(errors.Join(fmt.Errorf("x: %w", io.EOF))), io.EOF, true},
		{"not in a join", errors.Join(io.EOF, fs.ErrExist), fs.ErrClosed, false},
		{"by Is", syscall.ENOENT, fs.ErrNotExist, true},
		{"by Is, wrapped", fmt.Errorf("x: %w", matchesError{io.EOF}), io.EOF, true},
		{"not by Is", matchesError{io.EOF}, fs.ErrExist, false},
		{"Is panics", panicsError{}, io.EOF, false},
		{"leg beside a panic", errors.Join(panicsError{}, io.EOF), io.EOF, true},
		{"typed nil", (*pointerError)(nil), io.EOF, false},
		{"typed nil is itself", (*pointerError)(nil), (*pointerError)(nil), true},
		{"incomparable", slicesError{"x"}, slicesError{"x"}, false},
		{"incomparable target", io.EOF, slicesError{"x"}, false},
		{"incomparable around", errors.Join(slicesError{"x"}, io.EOF), io.EOF, true},
		{"nil", nil, io.EOF, false},
		{"nil target", io.EOF, nil, false},
		{"loop", &loopError{}, io.EOF, false},
		{"fan", &fanError{}, io.EOF, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, errtree.Is(tt.err, tt.target))
		})
	}
}

// TestIsAgreesWithErrors wherever errors.Is ends and does not panic.
func TestIsAgreesWithErrors(t *testing.T) {
	t.Parallel()
	leaves := []error{io.EOF, fs.ErrNotExist, syscall.ENOENT, syscall.EAGAIN, matchesError{io.EOF}, &pointerError{io.EOF}}
	var errs []error
	for _, a := range leaves {
		errs = append(errs, a, fmt.Errorf("x: %w", a))
		for _, b := range leaves {
			errs = append(errs, errors.Join(a, b), fmt.Errorf("%w: %w", a, fmt.Errorf("y: %w", b)))
		}
	}
	for _, err := range errs {
		for _, target := range append(leaves, fs.ErrExist) {
			assert.Equal(t, errors.Is(err, target), errtree.Is(err, target), "%#v, %#v", err, target)
		}
	}
}

func TestIsLooksAtMaxNodes(t *testing.T) {
	t.Parallel()
	chain := func(nodes int) error {
		err := io.EOF
		for range nodes - 1 {
			err = fmt.Errorf("x: %w", err)
		}
		return err
	}
	assert.True(t, errtree.Is(chain(errtree.MaxNodes), io.EOF))
	assert.False(t, errtree.Is(chain(errtree.MaxNodes+1), io.EOF))
}

func TestAny(t *testing.T) {
	t.Parallel()
	asked := 0
	has := func(err error) bool {
		asked++
		return err == io.EOF
	}
	assert.True(t, errtree.Any(fmt.Errorf("x: %w", errors.Join(fs.ErrExist, io.EOF, fs.ErrClosed)), has))
	assert.Equal(t, 4, asked)
	assert.False(t, errtree.Any(&fanError{}, has))
	assert.Equal(t, 4+errtree.MaxNodes, asked)
}

func TestMatchesLooksAtOneNode(t *testing.T) {
	t.Parallel()
	assert.True(t, errtree.Matches(io.EOF, io.EOF))
	assert.True(t, errtree.Matches(syscall.ENOENT, fs.ErrNotExist))
	assert.False(t, errtree.Matches(fmt.Errorf("x: %w", io.EOF), io.EOF))
	assert.False(t, errtree.Matches(panicsError{}, io.EOF))
	assert.False(t, errtree.Matches(slicesError{}, slicesError{}))
}

package retry_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// TestPanicError checks its forms.
func TestPanicError(t *testing.T) {
	t.Parallel()
	assert.EqualError(t, &retry.PanicError{Value: "odd"}, "panic: odd")
	assert.EqualError(t, &retry.PanicError{Value: "odd", In: "OnEnd", Stack: []byte("main.go:1")}, "panic in OnEnd: odd\n\nmain.go:1")
	assert.ErrorIs(t, &retry.PanicError{Value: errBoom}, errBoom)
	assert.Equal(t, retry.Final, retry.Classify(&retry.PanicError{Value: errors.New("odd")}).Class)
}

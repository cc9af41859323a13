package done_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

func TestIs(t *testing.T) {
	t.Parallel()
	assert.False(t, done.Is(context.Background()))
	ctx, cancel := context.WithCancel(t.Context())
	assert.False(t, done.Is(ctx))
	cancel()
	assert.True(t, done.Is(ctx))
}

func TestClosed(t *testing.T) {
	t.Parallel()
	assert.False(t, done.Closed(nil))
	c := make(chan struct{})
	assert.False(t, done.Closed(c))
	close(c)
	assert.True(t, done.Closed(c))
}

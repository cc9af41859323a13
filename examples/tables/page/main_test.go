package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page shows the jobs that have died.
func TestPage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, listener) }()
	assert.EventuallyWithT(t, func(t *assert.CollectT) {
		answer, err := http.Get("http://" + listener.Addr().String() + "/jobs")
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		assert.Contains(t, string(body), "550 no such mailbox")
	}, 30*time.Second, 50*time.Millisecond)
	stop()
	require.NoError(t, listener.Close())
	assert.ErrorIs(t, <-served, net.ErrClosed)
}

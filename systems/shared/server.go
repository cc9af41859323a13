package shared

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Listen listens at an address of a flag.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if wrong := new(net.AddrError); errors.As(err, &wrong) {
		err = Usage(err)
	}
	return listener, err
}

// Serve serves HTTP until the context is done, and returns its error then. Requests that have
// begun may end, within grace.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, grace time.Duration) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if err := server.Shutdown(within); err != nil {
		return fmt.Errorf("shutdown: %w", errors.Join(err, server.Close()))
	}
	return ctx.Err()
}

package shared

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
// begun may end, within grace. A client names the server by an IP address, as localhost, or as
// one of hosts.
//
// A request takes at most 1 MiB and 30 seconds to arrive, and its answer 3 minutes; a connection
// without a request is closed after a minute. A browser sends nothing for a page of another site.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, grace time.Duration, hosts ...string) error {
	server := &http.Server{
		Handler: guarded(handler, append(hosts, "localhost")), MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 3 * time.Minute, IdleTimeout: time.Minute,
	}
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

// guarded refuses what is too large, and what a page of another site has a browser send. Such a
// page may have a name that leads to this server, and its requests are then no cross-origin ones:
// so the name of the server must be known too.
func guarded(handler http.Handler, hosts []string) http.Handler {
	handler = http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(handler, 1<<20))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(name); err != nil && !slices.Contains(hosts, name) {
			http.Error(w, fmt.Sprintf("Host: %.100q: must be an IP address or one of %q", r.Host, hosts), http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

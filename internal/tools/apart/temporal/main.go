// Temporal runs a command beside a Temporal server of its own, which is in memory and
// listens on loopback. RETRY_TEST_TEMPORAL tells the command where it is: the address, a
// slash, and the namespace.
//
//	go run ./temporal go test ./...
//
// It is not tested with the others, because the server takes minutes to compile.
// `make temporal` uses it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"go.temporal.io/server/temporaltest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: temporal COMMAND…")
		os.Exit(2)
	}
	s := temporaltest.NewServer()
	cmd := exec.Command(os.Args[1], os.Args[2:]...) //nolint:gosec,noctx // it is the caller's
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "RETRY_TEST_TEMPORAL="+s.GetFrontendHostPort()+"/"+s.GetDefaultNamespace())
	err := cmd.Run()
	s.Stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

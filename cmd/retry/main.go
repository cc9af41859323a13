// Retry runs a command until it succeeds, and looks at retry policies:
//
//	retry curl -fsS https://example.com
//	retry plan policy.yaml
//	retry why 503
//	retry check policies.yaml
//	retry storm policy.yaml
//
// docs/command.md says what it does, and "retry --help" how.
package main

import (
	"os"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

//go:generate go run ./internal/man man

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}

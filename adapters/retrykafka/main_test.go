package retrykafka_test

import (
	"os"
	"testing"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(soakServer) != "" {
		if serve() != nil {
			os.Exit(1)
		}
		return
	}
	testkit.AtOnce(m, 10)
}

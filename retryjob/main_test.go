package retryjob_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestMain(m *testing.M) { testkit.NoLeaks(m) }

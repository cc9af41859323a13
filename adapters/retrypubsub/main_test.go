package retrypubsub_test

import (
	"testing"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

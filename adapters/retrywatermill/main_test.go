package retrywatermill_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // workers that are cut off complain
	testkit.AtOnce(m, 10)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

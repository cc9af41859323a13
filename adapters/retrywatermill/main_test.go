package retrywatermill_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestMain runs ten tests at a time, because they mostly wait for the engine.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // workers that are cut off complain
	flag.Parse()
	_ = flag.Set("test.parallel", "10")
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

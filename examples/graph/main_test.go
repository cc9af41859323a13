//go:build unix

package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

func Example() {
	main()
	// Unordered output:
	// fetch: <nil>
	// compile: <nil>
	// lint: command failed after 3 attempts: exit status 1: bad style
	// publish: not run: needs ["compile" "lint"]
}

// A circle, and what nobody has, end; so does a graph whose context is over.
func TestNotRun(t *testing.T) {
	t.Parallel()
	g := graph{
		"a": shell("", "true", "b"), "b": shell("", "true", "a"),
		"c": shell("", "true", "nobody"), "d": shell("", "true"),
	}
	ends := g.run(t.Context(), 1, &retry.Policy{})
	assert.Equal(t, "map[a:not run: needs [\"b\"] b:not run: needs [\"a\"] c:not run: needs [\"nobody\"] d:<nil>]", fmt.Sprint(ends))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, g.run(ctx, 1, &retry.Policy{})["d"], context.Canceled)
}

package retrygrpc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// A name that would match nothing is a mistake of the program.
func TestMethodsOfAnotherForm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Check", "/", "Health/", "/Health", "//Check", "/grpc.health.v1.Health/Check/"} {
		assert.PanicsWithValue(t, `retrygrpc: Methods: "`+name+`": must be "/package.Service/Method" or "/package.Service/*"`,
			func() { retrygrpc.Methods(name) })
	}
	check := retrygrpc.Methods("grpc.health.v1.Health/Check")
	assert.True(t, check("/grpc.health.v1.Health/Check"))
	assert.False(t, check("/grpc.health.v1.Health/Watch"))
}

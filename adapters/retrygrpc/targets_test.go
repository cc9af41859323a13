package retrygrpc_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// TestBudgets has a server that only fails. The calls to a target have three retries together,
// however its name is spelled.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := failing(1000).start(t)
	p, _ := quick(2)
	retries := &retrygrpc.Interceptor{Policy: p}
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	})
	retried := func(target string) bool {
		conn, err := grpc.NewClient(target, append(retries.DialOptions(), dialer,
			grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		before := s.count()
		_, err = call(t.Context(), conn, get, "")
		if s.count()-before > 1 {
			require.ErrorIs(t, err, retry.StopAttempts)
			return true
		}
		require.ErrorIs(t, err, retry.StopBudget)
		return false
	}
	for _, forms := range [][]string{
		{"passthrough:///host.example", "passthrough:///Host.Example", "passthrough:///host.example.:443", "passthrough:///HOST.example"},
		{"passthrough:///host.example:80", "passthrough:///host.EXAMPLE.:80", "passthrough:///host.example:80"},
		{"127.0.0.1:80", "dns:///127.0.0.1:80", "dns:127.0.0.1:80", "passthrough:///127.0.0.1:80"},
		{"[::1]:80", "dns:///[::1]:80"},
		{"[::1]:443", "passthrough:///[::1]"},
		{"unix:///Tmp/x"},
		{"unix:///tmp/x"},
	} {
		for range 3 {
			require.True(t, retried(forms[0]), forms[0])
		}
		for _, form := range forms {
			assert.False(t, retried(form), form)
		}
	}
}

// TestReserve: a new target has as many retries as one call may make, three to ten.
func TestReserve(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{8: 8, retry.Unlimited: 11} {
		s := (&server{unary: func(context.Context, int, string) (string, error) {
			return "", status.Error(codes.Unavailable, "no")
		}}).start(t)
		i, _ := retrying(n)
		i.Budget = nil
		_, err := call(t.Context(), dial(t, s.address, i.DialOptions()...), get, "")
		require.Error(t, err)
		assert.Equal(t, want, s.count())
	}
}

// TestTargets has a function that is asked for the budget of a target.
func TestTargets(t *testing.T) {
	t.Parallel()
	retries, _ := retrying(1)
	var seen []string
	retries.Budget = func(target string) retry.Throttle {
		seen = append(seen, target)
		return nil
	}
	_, err := call(t.Context(), dial(t, refused, retries.DialOptions()...), get, "")
	require.Error(t, err)
	assert.Equal(t, []string{"passthrough:///" + refused}, seen)
}

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

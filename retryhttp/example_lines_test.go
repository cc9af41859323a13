package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The two lines that most programs need: a client, and a call of any other kind.
func Example_twoLines() {
	ctx, policy := context.Background(), &retry.Policy{}
	op := func(context.Context) error { return nil }

	client := &http.Client{Transport: &retryhttp.Transport{}} // for HTTP
	err := policy.Execute(ctx, op)                            // for any other function

	fmt.Println(client.Timeout, err)
	// Output: 0s <nil>
}

package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// What most programs need: a client, and a call of any other kind.
func Example_twoLines() {
	ctx := context.Background()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	url := server.URL
	send := func(context.Context, string) error { return retry.MarkFinal(errors.New("no such address")) }

	client := &http.Client{Transport: &retryhttp.Transport{}}
	resp, err := client.Get(url)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, retryhttp.Why(resp) != nil)

	policy := &retry.Policy{MaxAttempts: 5}
	err = policy.Execute(ctx, func(ctx context.Context) error { return send(ctx, "hello") })
	fmt.Println(err)
	// Output:
	// 404 true
	// no such address
}

package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
)

func ExampleInterceptor() {
	const procedure = "/jobs.v1.Jobs/Get"
	calls := 0
	server := httptest.NewServer(connect.NewUnaryHandler(procedure,
		func(_ context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			if calls++; calls == 1 {
				return nil, connect.NewError(connect.CodeUnavailable, errors.New("starting"))
			}
			return connect.NewResponse(req.Msg), nil
		}))
	defer server.Close()

	newJobsClient := func(client connect.HTTPClient, url string, opts ...connect.ClientOption) *connect.Client[wrapperspb.StringValue, wrapperspb.StringValue] {
		return connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](client, url+procedure, opts...) // as generated code does
	}

	retries := &retryconnect.Interceptor{
		Idempotent: func(procedure string) bool { return procedure == "/jobs.v1.Jobs/Get" },
	}
	client := newJobsClient(http.DefaultClient, server.URL, connect.WithInterceptors(retries))
	resp, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("job 7")))
	fmt.Println(resp.Msg.GetValue(), err, calls)
	// Output: job 7 <nil> 2
}

package clientstest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-github/v88/github"
	"github.com/minio/minio-go/v7"
	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"google.golang.org/api/googleapi"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsStatusesOfClients checks that retry.Classify, which imports none of them,
// finds the status in the errors of clients that have no method for it.
func TestRootKnowsStatusesOfClients(t *testing.T) {
	t.Parallel()
	for status, class := range map[int]retry.Class{404: retry.Final, 429: retry.RateLimited, 503: retry.Retryable} {
		for _, err := range []error{
			&azcore.ResponseError{StatusCode: status},
			&googleapi.Error{Code: status},
			&github.ErrorResponse{Response: &http.Response{StatusCode: status, Request: &http.Request{}}},
			minio.ErrorResponse{StatusCode: status},
		} {
			v := retry.Classify(fmt.Errorf("x: %w", err))
			assert.Equal(t, class, v.Class, "%d: %T", status, err)
			assert.Equal(t, fmt.Sprintf("http_%d", status), v.Category, "%T", err)
		}
		// Their Error methods need a whole exchange.
		assert.Equal(t, class, retry.Classify(&openai.Error{StatusCode: status}).Class)
		assert.Equal(t, class, retry.Classify(&anthropic.Error{StatusCode: status}).Class)
	}
}

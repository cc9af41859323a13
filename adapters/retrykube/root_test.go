package retrykube_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsAPIErrors checks that retry.Classify, which does not import Kubernetes,
// knows the errors of an API server.
func TestRootKnowsAPIErrors(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err  error
		want retry.Verdict
	}{
		{apierrors.NewNotFound(pods, "x"), retry.Verdict{Class: retry.Final, Category: "http_404"}},
		{apierrors.NewConflict(pods, "x", errors.New("y")), retry.Verdict{Class: retry.Final, Category: "http_409"}},
		{apierrors.NewForbidden(pods, "x", errors.New("y")), retry.Verdict{Class: retry.Final, Category: "http_403"}},
		{apierrors.NewInternalError(errors.New("y")), retry.Verdict{Class: retry.Retryable, Category: "http_500"}},
		{apierrors.NewServiceUnavailable("y"), retry.Verdict{Class: retry.Retryable, Category: "http_503"}},
		{apierrors.NewTooManyRequests("y", 7), retry.Verdict{
			Class: retry.RateLimited, NotApplied: true, After: 7 * time.Second, Category: "http_429",
		}},
	} {
		assert.Equal(t, tt.want, retry.Classify(fmt.Errorf("x: %w", tt.err)), "%v", tt.err)
	}
}

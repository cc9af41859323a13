package retryamqp_test

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsReplyCodes checks that retry.Classify, which does not import an AMQP client,
// knows the reply codes.
func TestRootKnowsReplyCodes(t *testing.T) {
	t.Parallel()
	for err, want := range map[*amqp.Error]retry.Verdict{
		amqp.ErrClosed:                {Class: retry.Retryable, Category: "amqp_504"},
		{Code: amqp.ConnectionForced}: {Class: retry.Retryable, Category: "amqp_320"},
		{Code: amqp.NotFound}:         {Class: retry.Final, Category: "amqp_404"},
		{Code: amqp.AccessRefused}:    {Class: retry.Final, Category: "amqp_403"},
	} {
		assert.Equal(t, want, retry.Classify(fmt.Errorf("x: %w", err)), "%v", err)
	}
}

package retrysqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry"
)

// reserve is how long before the end of its time a Lambda function stops, to tell SQS.
const reserve = time.Second

// HandleLambda is the handler of a Lambda function whose event source is the queue, with
// ReportBatchItemFailures. It calls fn, in Concurrency goroutines, for every message of the
// event. Lambda deletes the messages that are not in the response; those in it come again when
// the policy says. In a FIFO queue, messages behind one that comes again are not tried, which SQS
// counts as an attempt: have a batch size of 1 there. A second before the function's time is over,
// the context of fn ends. The error says that a field is wrong or the queue cannot be asked:
// all messages then come again.
func (r *Retries) HandleLambda(
	ctx context.Context, event events.SQSEvent, fn func(context.Context, events.SQSMessage) error,
) (response events.SQSEventResponse, err error) {
	if err := r.check(ctx); err != nil {
		return response, fmt.Errorf("retrysqs: %s: %w", r.QueueURL, err)
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-reserve))
		defer cancel()
	}
	places := max(r.Concurrency, 1)
	if r.fifo() {
		places = 1
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	blocked := map[string]bool{} // groups
	free := make(chan struct{}, places)
	for _, record := range event.Records {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			group := record.Attributes["MessageGroupId"]
			mu.Lock()
			again := r.fifo() && blocked[group]
			mu.Unlock()
			if !again {
				again = r.handleRecord(ctx, record, fn)
			}
			if again {
				mu.Lock()
				defer mu.Unlock()
				blocked[group] = true
				response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
			}
		})
	}
	all.Wait()
	return response, nil
}

// handleRecord reports whether the message comes again.
func (r *Retries) handleRecord(ctx context.Context, record events.SQSMessage, fn func(context.Context, events.SQSMessage) error) bool {
	msg := types.Message{
		MessageId: &record.MessageId, ReceiptHandle: &record.ReceiptHandle, Body: &record.Body, Attributes: record.Attributes,
		MessageAttributes: map[string]types.MessageAttributeValue{},
	}
	for name, a := range record.MessageAttributes {
		msg.MessageAttributes[name] = types.MessageAttributeValue{
			DataType: aws.String(a.DataType), StringValue: a.StringValue, BinaryValue: a.BinaryValue,
		}
	}
	outcome, err := r.attempt(ctx, msg, func(ctx context.Context) error { return fn(ctx, record) })
	if err != nil {
		r.failed(ctx, fmt.Errorf("message %s: %w", record.MessageId, err))
	}
	return outcome != retry.Done && outcome != retry.Ended
}

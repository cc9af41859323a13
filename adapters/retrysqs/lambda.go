package retrysqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry/retryjob"
)

// reserve is how long before the end of its time a Lambda function stops, to tell SQS. The last
// third of it is for the answer to Lambda.
const reserve = time.Second

// HandleLambda is the handler of a Lambda function whose event source is the queue, with
// ReportBatchItemFailures. It calls fn, in Concurrency goroutines, for every message of the
// event, without its State. Lambda deletes the messages that are not in the response; those in it
// come again when the policy says. In a FIFO queue, messages behind one that comes again are not
// tried, which SQS counts as an attempt: have a batch size of 1 there. A second before the
// function's time is over, or when half of it is, the context of fn ends. HandleLambda returns
// before the time is over, also if fn or SQS does not: what has not ended then comes again when
// the queue's visibility timeout is over, which counts as an attempt. The error says that a field
// is wrong or the queue cannot be asked: all messages then come again.
func (r *Retries) HandleLambda(
	ctx context.Context, event events.SQSEvent, fn func(context.Context, events.SQSMessage) error,
) (events.SQSEventResponse, error) {
	settle := context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		spare := min(reserve, time.Until(end)/2)
		var cancel context.CancelFunc
		settle, cancel = context.WithDeadline(settle, end.Add(-spare/3))
		defer cancel()
		ctx, cancel = context.WithDeadline(ctx, end.Add(-spare))
		defer cancel()
	}
	if err := r.check(ctx); err != nil {
		return events.SQSEventResponse{}, fmt.Errorf("retrysqs: %s: %w", r.QueueURL, err)
	}
	b := &batch{Retries: r, fn: fn, open: map[int]bool{}, blocked: map[string]bool{}}
	for i := range event.Records {
		b.open[i] = true
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.run(ctx, settle, event.Records)
	}()
	select {
	case <-over:
	case <-settle.Done(): // Lambda hears of what has ended
	}
	return b.response(event.Records), nil
}

// batch is the messages of an event.
type batch struct {
	*Retries

	fn func(context.Context, events.SQSMessage) error

	mu      sync.Mutex
	open    map[int]bool    // records that come again, unless they end
	blocked map[string]bool // groups
}

// run handles the messages, until settle is done.
func (b *batch) run(ctx, settle context.Context, records []events.SQSMessage) {
	places := max(b.Concurrency, 1)
	if b.fifo() {
		places = 1
	}
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, places)
	for i, record := range records {
		select {
		case free <- struct{}{}:
		case <-settle.Done():
			return
		}
		all.Go(func() {
			defer func() { <-free }()
			b.handle(ctx, settle, i, record)
		})
	}
}

// handle handles a message that no other one of its group holds up.
func (b *batch) handle(ctx, settle context.Context, i int, record events.SQSMessage) {
	group := record.Attributes["MessageGroupId"]
	b.mu.Lock()
	blocked := b.fifo() && b.blocked[group]
	b.mu.Unlock()
	if blocked || settle.Err() != nil {
		return
	}
	again := b.handleRecord(ctx, settle, record, b.fn)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[i] = again
	b.blocked[group] = again
}

// response returns which messages come again.
func (b *batch) response(records []events.SQSMessage) (response events.SQSEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, record := range records {
		if b.open[i] {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
		}
	}
	return response
}

// handleRecord reports whether the message comes again.
func (r *Retries) handleRecord(
	ctx, settle context.Context, record events.SQSMessage, fn func(context.Context, events.SQSMessage) error,
) bool {
	m := &message{release: func() {}, Message: types.Message{
		MessageId: &record.MessageId, ReceiptHandle: &record.ReceiptHandle, Body: &record.Body, Attributes: record.Attributes,
		MessageAttributes: map[string]types.MessageAttributeValue{},
	}}
	for name, a := range record.MessageAttributes {
		m.MessageAttributes[name] = types.MessageAttributeValue{
			DataType: aws.String(a.DataType), StringValue: a.StringValue, BinaryValue: a.BinaryValue,
		}
	}
	outcome, err := r.attempt(ctx, settle, m, func(ctx context.Context) error {
		record.MessageAttributes = foreign(record.MessageAttributes)
		return fn(ctx, record)
	})
	r.ended(ctx, m, err)
	return outcome != retryjob.Done && outcome != retryjob.Ended
}

package retrysqs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// The client of AWS waits for an answer without an end. So every request has an end here.
const (
	patience = 10 * time.Second // for one answer, besides the time that SQS waits for a message
	settling = 30 * time.Second // for a request that a message needs, with what is asked again
	sending  = time.Minute      // for a copy or a dead letter
)

// ask makes a request until SQS has answered, for a limited time. An answer that does not come
// is given up after a while, and asked for again: mostly, one connection is silent, and the
// client opens another one.
func ask(ctx context.Context, within time.Duration, request func(context.Context) error) error {
	all, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	end, _ := all.Deadline()
	for {
		one, cancel := context.WithTimeout(all, patience)
		err := request(one)
		silent := err != nil && one.Err() != nil
		cancel()
		switch {
		case !silent:
			return err
		case all.Err() != nil || !time.Now().Before(end):
			return fmt.Errorf("SQS has not answered in time: %w", err)
		}
	}
}

// hide hides a message for d. What comes later than within might hide it from another worker.
func (r *Retries) hide(ctx context.Context, receipt *string, d, within time.Duration) error {
	return ask(ctx, within, func(ctx context.Context) error {
		_, err := r.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &r.QueueURL, ReceiptHandle: receipt, VisibilityTimeout: seconds(d),
		})
		return err
	})
}

// left is for how long a message is hidden at least after its worker has told SQS, if that is
// not longer than the worker should wait.
func (r *Retries) left() time.Duration { return min(r.visibility(), settling) }

// remove deletes a message.
func (r *Retries) remove(ctx context.Context, receipt *string) error {
	return ask(ctx, settling, func(ctx context.Context) error {
		_, err := r.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.QueueURL, ReceiptHandle: receipt})
		return err
	})
}

// send sends a copy or a dead letter until ctx ends.
func (r *Retries) send(ctx context.Context, in *sqs.SendMessageInput) error {
	return ask(ctx, sending, func(ctx context.Context) error {
		_, err := r.Client.SendMessage(ctx, in)
		return err
	})
}

// keep hides a message three times in Visibility, until release is called or its Overtime is over.
// If that fails, the next time may not, unless the 12 hours are over.
func (r *Retries) keep(ctx context.Context, m *message) (release func()) {
	third := r.visibility() / 3
	m.kept.Most = cmp.Or(r.Overtime, r.visibility())
	return m.kept.Keep(third, func() {
		_ = r.hide(ctx, m.ReceiptHandle, r.visibility(), min(third, patience))
	}, func(stuck error) { r.failed(ctx, fmt.Errorf("message %s: %w", aws.ToString(m.MessageId), stuck)) })
}

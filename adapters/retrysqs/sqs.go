package retrysqs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
)

const (
	defaultVisibility = 30 * time.Second
	most              = 10   // messages in one answer
	mostReceipts      = 1000 // of a RedrivePolicy
	longPoll          = 5 * time.Second
	pause             = time.Second // after an error
)

// Retries handles the messages of a queue under a policy. A literal with a Client and a
// QueueURL is ready to use. Its methods are safe for concurrent use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is in KindAttribute
	// of the message: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is
	// one. A message of a kind without a policy comes again after a second, and OnError is told.
	PolicyFor     func(kind string) (*retry.Policy, error)
	KindAttribute string // a message attribute; empty means "kind"

	Client   *sqs.Client
	QueueURL string

	// Dead is the URL of the queue for messages that are given up, which has to be a FIFO queue
	// if the queue is one. Empty means the dead-letter queue of the queue's RedrivePolicy.
	Dead string

	// Concurrency is how many messages run at a time; 0 or less means 1. No more are taken
	// than run.
	Concurrency int

	// Visibility is after which time of silence SQS gives a message to another worker; 0 means
	// 30 seconds. It is rounded up to seconds. While a message runs, Run tells SQS three times in
	// that time. HandleLambda leaves it to Lambda.
	Visibility time.Duration

	// Overtime is how long a message is kept whose fn goes on after its context has ended. 0 means
	// Visibility. After that OnError is told, and SQS gives the message to another worker after
	// Visibility. fn keeps its place of the Concurrency until it returns; if it fails then,
	// nothing follows. HandleLambda leaves it to Lambda.
	Overtime time.Duration

	// OnError is told what went wrong besides the messages: SQS could not be asked or told, no
	// policy is known for a message, or its Overtime is over. It may be called by several goroutines at once. nil
	// means slog.Default().
	OnError func(ctx context.Context, err error)

	dead atomic.Pointer[string] // the URL; not nil if the fields and the queue have been checked
}

// Run calls fn, in Concurrency goroutines, for every message until ctx ends. fn gets a child of
// ctx, and the message without its State. When ctx ends, Run waits for fn, then for SQS, and
// returns nil. If SQS does not answer, it waits for up to 15 seconds where no message was in
// progress, and otherwise for up to 100. It returns an error if a field is wrong or the queue cannot be asked, or if SQS says that the
// queue is gone, or refuses the credentials.
func (r *Retries) Run(ctx context.Context, fn func(context.Context, types.Message) error) error {
	if err := r.check(ctx); err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	} else if err != nil {
		return fmt.Errorf("retrysqs: %s: %w", r.QueueURL, err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, max(r.Concurrency, 1))
	for range cap(free) {
		free <- struct{}{}
	}
	for ctx.Err() == nil {
		n := 0
		select {
		case <-free:
			n++
		case <-ctx.Done():
			return nil
		}
		for n < most && !r.fifo() && len(free) > 0 {
			<-free
			n++
		}
		messages, err := r.receive(ctx, n)
		if fatal(err) {
			return fmt.Errorf("retrysqs: %s: %w", r.QueueURL, err)
		} else if err != nil {
			r.failed(ctx, err)
			engine.Wait(ctx, pause)
		}
		for _, msg := range messages {
			all.Go(func() {
				defer func() { free <- struct{}{} }()
				r.handle(ctx, msg, fn)
			})
		}
		for range n - len(messages) {
			free <- struct{}{}
		}
	}
	return nil
}

// receive takes up to n messages. Its request goes on when ctx has ended: the messages in an
// answer that nobody hears lose an attempt.
func (r *Retries) receive(ctx context.Context, n int) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.poll()+patience)
	defer cancel()
	out, err := r.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &r.QueueURL, MaxNumberOfMessages: int32(n), VisibilityTimeout: seconds(r.visibility()), //nolint:gosec // at most 10
		WaitTimeSeconds:             int32(r.poll() / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// poll is how long SQS waits for a message. A worker that died meanwhile does not take the
// message that it had, too.
func (r *Retries) poll() time.Duration { return min(longPoll, r.visibility()/2) }

func (r *Retries) fifo() bool { return strings.HasSuffix(r.QueueURL, ".fifo") }

func (r *Retries) visibility() time.Duration { return cmp.Or(r.Visibility, defaultVisibility) }

// seconds rounds up, so that nothing is early.
func seconds(d time.Duration) int32 {
	return int32(engine.Ceil(d, time.Second) / time.Second) //nolint:gosec // within hours
}

// Validate reports what is wrong with the fields. Run and HandleLambda call it until nothing is
// wrong.
func (r *Retries) Validate() error {
	switch {
	case r.Client == nil || r.QueueURL == "":
		return errors.New("the Client is nil, or QueueURL is empty")
	case r.visibility() < 2*time.Second || r.visibility() > longest:
		return fmt.Errorf("Retries.Visibility is %v: must be from 2s to %v", r.Visibility, longest)
	case r.Overtime < 0:
		return fmt.Errorf("Retries.Overtime is %v: must not be negative", r.Overtime)
	}
	return r.Policy.Validate()
}

// check checks the fields and the queue, until that has succeeded once.
func (r *Retries) check(ctx context.Context) error {
	if r.dead.Load() != nil {
		return nil
	}
	if err := r.Validate(); err != nil {
		return err
	}
	var dead string
	err := ask(ctx, settling, func(ctx context.Context) (err error) {
		dead, err = r.find(ctx)
		return err
	})
	if err == nil {
		r.dead.Store(&dead)
	}
	return err
}

// find asks for the RedrivePolicy, and returns the URL of the queue for dead letters.
func (r *Retries) find(ctx context.Context) (dead string, err error) {
	out, err := r.Client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &r.QueueURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return "", err
	}
	var redrive struct {
		Target string      `json:"deadLetterTargetArn"`
		Limit  json.Number `json:"maxReceiveCount"`
	}
	if text := out.Attributes["RedrivePolicy"]; text != "" {
		if err := json.Unmarshal([]byte(text), &redrive); err != nil {
			return "", fmt.Errorf("RedrivePolicy %q: %w", text, err)
		}
		limit, _ := redrive.Limit.Int64()
		_, over := r.Policy.Exhausted(retry.State{Failures: int(limit)}, r.Policy.Now())
		if r.PolicyFor == nil && !over && limit < mostReceipts {
			return "", fmt.Errorf("RedrivePolicy: maxReceiveCount is %d: must be at least MaxAttempts of the policy, or %d", limit, mostReceipts)
		}
	}
	if r.Dead != "" {
		return r.Dead, nil
	}
	parts := strings.Split(redrive.Target, ":")
	if len(parts) < 6 {
		return "", errors.New("no queue for messages that are given up: set Dead, or a RedrivePolicy of the queue")
	}
	found, err := r.Client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &parts[5], QueueOwnerAWSAccountId: &parts[4]})
	if err != nil {
		return "", fmt.Errorf("%s: %w", redrive.Target, err)
	}
	return aws.ToString(found.QueueUrl), nil
}

// fatal reports whether an error of SQS does not go away.
func fatal(err error) bool {
	var e smithy.APIError
	return errors.As(err, &e) && slices.Contains([]string{
		"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "AccessDenied", "AccessDeniedException",
		"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSecurity",
	}, e.ErrorCode())
}

// failed tells of an error.
func (r *Retries) failed(ctx context.Context, err error) {
	engine.Report(ctx, r.OnError, fmt.Errorf("retrysqs: %s: %w", r.QueueURL, err))
}

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

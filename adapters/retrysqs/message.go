package retrysqs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/seed-5ff3c98e/retry"
)

const (
	// longest is how long a message is hidden after one receipt. SQS allows 12 hours; an hour
	// is left for what cannot be measured, such as when Lambda received the message.
	longest      = 11 * time.Hour
	longestDelay = 15 * time.Minute // of a message that is sent

	// A State is an attribute in its text form, which ignores the keys that are ours: lost is the
	// number of attempts that the State does not have, due is in milliseconds of Unix time.
	stateAttribute = "retry-state"
	errorAttribute = "retry-error"

	maxError = 8 << 10 // how much of an error's text is kept
)

// message is one receipt of a message.
type message struct {
	types.Message

	at       time.Time // received
	base     retry.State
	due      time.Time // zero means that it is
	receipts int       // that were attempts, with this one
	lost     int       // attempts in base that have no outcome
}

// read reads what SQS says of a message.
func read(msg types.Message) (*message, error) {
	m := &message{Message: msg, at: time.Now()}
	count, err := strconv.Atoi(msg.Attributes["ApproximateReceiveCount"])
	if err != nil {
		return nil, errors.New("the message has no ApproximateReceiveCount: all system attributes have to be received")
	}
	text := aws.ToString(msg.MessageAttributes[stateAttribute].StringValue)
	if err := m.base.UnmarshalText([]byte(text)); err != nil {
		return m, err
	}
	for part := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch key {
		case "lost":
			m.lost = int(min(max(n, 0), 1)) // a stranger may have written it
		case "due":
			m.due = time.UnixMilli(n)
		default:
			err = nil
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", part, err)
		}
	}
	first, _ := strconv.ParseInt(msg.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64)
	received := time.UnixMilli(first)
	if m.receipts = count; received.Before(m.due) {
		m.receipts-- // which only hid it until it is due
	}
	if count > 1 && m.base.First.IsZero() && first > 0 {
		m.base.First = received
	}
	return m, nil
}

// attempt makes the attempt at a message, and does what follows. Done says that the message is
// to be deleted, and Ended that it is gone. Otherwise it comes again.
func (r *Retries) attempt(ctx context.Context, msg types.Message, fn func(context.Context) error) (retry.Outcome, error) {
	m, err := read(msg)
	if m == nil {
		return retry.Handed, err
	}
	if err != nil {
		return r.bury(ctx, m, fmt.Errorf("%s: %w", stateAttribute, err))
	}
	job := retry.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, State: m.base, Lost: m.lost + m.receipts - 1}
	job.Kind = aws.ToString(m.MessageAttributes[cmp.Or(r.KindAttribute, "kind")].StringValue)
	wait := time.Until(m.due)
	early := job.Early(wait)
	cut := early > 0 && early < wait // no policy has decided that: the copy has another due time
	if early > 0 && !(cut && r.fifo()) {
		return r.again(ctx, m, m.base, m.lost+max(m.receipts-1, 0), early, m.receipts == 0 && !cut)
	}
	var began time.Time
	var outcome retry.Outcome
	end := make(chan struct{})
	go func() { // which the function may end
		defer close(end)
		outcome = job.Attempt(ctx, func(ctx context.Context) error {
			began = job.State.First
			return fn(ctx)
		})
	}()
	<-end
	switch outcome {
	case retry.Done:
		return outcome, nil
	case retry.Ended:
		return r.bury(ctx, m, job.Decision.Err)
	case retry.Again, retry.Handed:
		if outcome == retry.Handed && ctx.Err() == nil { // there is no policy
			r.failed(ctx, job.Err)
		}
		// What SQS counts says the State if there were counted failures only.
		counted := m.base
		counted.Failures += m.lost + m.receipts
		counted.First = began
		exact := outcome == retry.Again && job.State == counted && !nonIdempotent(job.Policy)
		delay := job.Decision.Delay
		if r.fifo() && ctx.Err() != nil { // Run may still be receiving, and every receipt counts
			delay = max(delay, r.poll()+time.Second)
		}
		return r.again(ctx, m, job.State, job.Lost, delay, exact)
	default:
		return retry.Handed, errors.New("the function has called runtime.Goexit")
	}
}

func nonIdempotent(p *retry.Policy) bool { return p != nil && p.NonIdempotent }

// again has a message come again after a delay. If SQS counts what the State would say, or the
// queue keeps an order, which a copy would not, the message stays where it is.
func (r *Retries) again(
	ctx context.Context, m *message, state retry.State, lost int, delay time.Duration, exact bool,
) (retry.Outcome, error) {
	var err error
	if long := time.Since(m.at)+delay+time.Second > longest; long || !exact && !r.fifo() {
		if err := r.hide(ctx, m.ReceiptHandle, r.visibility()); err != nil {
			return retry.Handed, err // another worker may have it
		}
		err = r.copy(ctx, m, state, lost, delay)
		var refused smithy.APIError
		switch {
		case err == nil:
			return r.remove(ctx, m.ReceiptHandle)
		case !errors.As(err, &refused) || refused.ErrorFault() != smithy.FaultClient:
			return retry.Handed, err
		}
		err = fmt.Errorf("no copy can be sent, so that the attempt counts: %w", err) // too large, or too many attributes
	}
	return retry.Again, errors.Join(err, r.hide(ctx, m.ReceiptHandle, min(delay, longest)))
}

// remove deletes a message.
func (r *Retries) remove(ctx context.Context, receipt *string) (retry.Outcome, error) {
	_, err := r.Client.DeleteMessage(context.WithoutCancel(ctx), &sqs.DeleteMessageInput{
		QueueUrl: &r.QueueURL, ReceiptHandle: receipt,
	})
	return retry.Ended, err
}

// copy sends a copy with a State.
func (r *Retries) copy(ctx context.Context, m *message, state retry.State, lost int, delay time.Duration) error {
	text, err := state.MarshalText()
	if err != nil {
		return err
	}
	parts := []string{string(text)}
	if lost > 0 {
		parts = append(parts, fmt.Sprint("lost=", lost))
	}
	if delay > longestDelay || r.fifo() && delay > 0 { // SQS cannot delay a message of a FIFO queue
		parts = append(parts, fmt.Sprint("due=", time.Now().Add(delay+time.Millisecond-1).UnixMilli()))
	}
	in := r.letter(m, r.QueueURL, stateAttribute, strings.TrimSpace(strings.Join(parts, " ")))
	if !r.fifo() {
		in.DelaySeconds = seconds(min(delay, longestDelay))
	}
	_, err = r.Client.SendMessage(context.WithoutCancel(ctx), in)
	return err
}

// bury sends a copy to the dead letters. It goes without its State, so that it begins anew if
// somebody moves it back, and without the reason if SQS does not take it with that.
func (r *Retries) bury(ctx context.Context, m *message, reason error) (_ retry.Outcome, err error) {
	text := reason.Error()
	for _, text := range []string{printable(text[:min(len(text), maxError)]), ""} {
		_, err = r.Client.SendMessage(context.WithoutCancel(ctx), r.letter(m, r.dead, errorAttribute, text))
		if err == nil {
			return r.remove(ctx, m.ReceiptHandle)
		}
	}
	return retry.Handed, fmt.Errorf("%s: %w", r.dead, err)
}

// letter returns a copy of a message with one attribute of ours, in place of all that it has.
func (r *Retries) letter(m *message, queue, name, value string) *sqs.SendMessageInput {
	in := &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: m.Body, MessageAttributes: maps.Clone(m.MessageAttributes)}
	delete(in.MessageAttributes, stateAttribute)
	delete(in.MessageAttributes, errorAttribute)
	if value != "" {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	if group := m.Attributes["MessageGroupId"]; group != "" {
		in.MessageGroupId = &group
	}
	if r.fifo() {
		in.MessageDeduplicationId = aws.String(rand.Text())
	}
	return in
}

// printable returns what of a text SQS accepts.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c > 0xFFFD {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, ""))
}

// hide hides a message for a time.
func (r *Retries) hide(ctx context.Context, receipt *string, d time.Duration) error {
	_, err := r.Client.ChangeMessageVisibility(context.WithoutCancel(ctx), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &r.QueueURL, ReceiptHandle: receipt, VisibilityTimeout: seconds(d),
	})
	return err
}

// handle handles a message for Run.
func (r *Retries) handle(ctx context.Context, msg types.Message, fn func(context.Context, types.Message) error) {
	outcome, err := r.attempt(ctx, msg, func(ctx context.Context) error {
		over := make(chan struct{})
		var beat sync.WaitGroup
		beat.Go(func() {
			ticker := time.NewTicker(r.visibility() / 3)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C: // if it fails, the next one may not, unless the 12 hours are over
					_ = r.hide(ctx, msg.ReceiptHandle, r.visibility())
				case <-over:
					return
				}
			}
		})
		defer beat.Wait() // or it would undo what follows
		defer close(over)
		return fn(ctx, msg)
	})
	if outcome == retry.Done {
		_, err = r.remove(ctx, msg.ReceiptHandle)
	}
	if err != nil {
		r.failed(ctx, fmt.Errorf("message %s: %w", aws.ToString(msg.MessageId), err))
	}
}

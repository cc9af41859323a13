package retrysqs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

const (
	// longest is how long a message is hidden after one receipt. SQS allows 12 hours; an hour
	// is left for what cannot be measured, such as when Lambda received the message.
	longest      = 11 * time.Hour
	longestDelay = 15 * time.Minute // of a message that is sent

	// A State is an attribute in its text form, which ignores the keys that are ours: lost is the
	// number of attempts that the State does not have, due is in milliseconds of Unix time.
	stateAttribute = "retry-state"

	mostAttributes = 10      // of a message
	mostCounted    = 1 << 29 // is more than a message can have had of anything
)

// reasons is how much of an error's text is kept, and how much of it if there is no room.
var reasons = []int{engine.MaxError, 256, 0}

var errAttributes = fmt.Errorf("the message has %d attributes, and SQS allows no more", mostAttributes)

// message is one receipt of a message.
type message struct {
	types.Message

	at       time.Time // received
	base     retry.State
	due      time.Time // zero means that it is
	receipts int       // that were attempts, with this one
	count    int       // of all receipts
	lost     int       // attempts in base that have no outcome
	release  func()    // ends what hides the message again and again
	kept     retryjob.Overtime

	job  retryjob.Stored
	note error // that OnError is told, although the message went where it should
}

// foreign returns the attributes that are not a State. A function that sends a message with
// them begins anew.
func foreign[T any](attributes map[string]T) map[string]T {
	all := maps.Clone(attributes)
	delete(all, stateAttribute)
	return all
}

// number reads a count, and makes it one that can be.
func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // Atoi returns what is next to it
	}
	return min(max(n, 0), mostCounted), err
}

// read reads the State. Publishers may have written anything there.
func (m *message) read() (err error) {
	text := aws.ToString(m.MessageAttributes[stateAttribute].StringValue)
	if err := m.base.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	for part := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "lost":
			m.lost, err = number(value)
		case "due":
			var ms int64
			ms, err = strconv.ParseInt(value, 10, 64)
			m.due = time.UnixMilli(ms)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	first, _ := strconv.ParseInt(m.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64)
	received := time.UnixMilli(max(first, 0))
	if m.receipts = m.count; received.Before(m.due) {
		m.receipts-- // which only hid it until it is due
	}
	if m.count > 1 && m.base.First.IsZero() && first > 0 {
		m.base.First = received
	}
	return nil
}

// early returns how long the message has to wait until it is due. If no policy has decided
// that wait, the message waits once, for as long as one might have decided.
func (m *message) early(job *retryjob.Stored) time.Duration {
	wait := time.Until(m.due)
	early := job.Early(wait)
	if early < wait && m.count > 1 {
		return 0
	}
	return early
}

// attempt makes the attempt at a message, and does what follows, which goes on in settle when
// ctx has ended. Done says that the message is to be deleted, and Ended that it is gone.
// Otherwise it comes again.
func (r *Retries) attempt(ctx, settle context.Context, m *message, fn func(context.Context) error) (retryjob.Outcome, error) {
	m.at = time.Now()
	var err error
	if m.count, err = number(m.Attributes["ApproximateReceiveCount"]); err != nil {
		return retryjob.Handed, errors.New("the message has no ApproximateReceiveCount: all system attributes have to be received")
	}
	m.count = max(m.count, 1)
	job := &m.job
	*job = retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor}
	if err := m.read(); err != nil {
		job.Decision.Err = fmt.Errorf("%s: %w", stateAttribute, err)
		return r.bury(settle, m, job.Decision.Err)
	}
	lost := m.lost + max(m.receipts-1, 0)
	job.State, job.Lost = m.base, lost
	job.Kind = aws.ToString(m.MessageAttributes[cmp.Or(r.KindAttribute, "kind")].StringValue)
	if early := m.early(job); early > 0 {
		return r.again(settle, m, m.base, lost, early, m.receipts == 0)
	}
	var began time.Time
	work := func(ctx context.Context) error {
		began = job.State.First
		return fn(ctx)
	}
	outcome := engine.Attempt(ctx, job, work)
	for job.Cause == retryjob.Held && r.fifo() { // it waits for its turn here: every receipt counts
		engine.Wait(ctx, job.Decision.Delay)
		*job = retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: job.Kind, State: job.State, Lost: job.Lost}
		outcome = engine.Attempt(ctx, job, work)
	}
	switch {
	case outcome == retryjob.Done:
		return outcome, nil
	case m.kept.Over():
		return retryjob.Handed, fmt.Errorf("it was not kept so long, and counts as lost: %w", cmp.Or(job.Err, job.Decision.Err))
	}
	switch outcome {
	case retryjob.Ended:
		return r.bury(settle, m, job.Decision.Err)
	case retryjob.Again, retryjob.Handed, retryjob.Refused:
		if outcome == retryjob.Refused {
			r.failed(ctx, job.Err)
		}
		// What SQS counts says the State if there were counted failures only.
		counted := m.base
		counted.Failures += m.lost + m.receipts
		counted.First = began
		exact := outcome == retryjob.Again && job.State == counted && !nonIdempotent(job.Policy)
		delay := job.Decision.Delay
		if r.fifo() && ctx.Err() != nil { // Run may still be receiving, and every receipt counts
			delay = max(delay, r.poll()+time.Second)
		}
		return r.again(settle, m, job.State, job.Lost, delay, exact)
	default:
		return retryjob.Handed, errors.New("the function has called runtime.Goexit")
	}
}

func nonIdempotent(p *retry.Policy) bool { return p != nil && p.NonIdempotent }

// again has a message come again after a delay. If SQS counts what the State would say, or the
// queue keeps an order, which a copy would not, the message stays where it is.
func (r *Retries) again(
	ctx context.Context, m *message, state retry.State, lost int, delay time.Duration, exact bool,
) (retryjob.Outcome, error) {
	if long := delay > longest-time.Second-time.Since(m.at); long || !exact && !r.fifo() {
		limited, cancel := context.WithTimeout(ctx, sending)
		defer cancel()
		if err := r.hide(limited, m.ReceiptHandle, r.visibility(), r.left()); err != nil {
			return retryjob.Handed, err // another worker may have it
		}
		err := r.copy(limited, m, state, lost, delay)
		var refused smithy.APIError
		switch {
		case err == nil:
			return retryjob.Ended, r.remove(ctx, m.ReceiptHandle)
		case !errors.Is(err, errAttributes) && (!errors.As(err, &refused) || refused.ErrorFault() != smithy.FaultClient):
			return retryjob.Handed, err
		}
		m.note = fmt.Errorf("no copy can be sent, so that the attempt counts: %w", err) // too large, or too many attributes
	}
	m.release()
	return retryjob.Again, r.hide(ctx, m.ReceiptHandle, min(delay, longest), r.left())
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
		parts = append(parts, fmt.Sprint("due=", engine.Milli(time.Now().Add(delay))))
	}
	in := r.letter(m, r.QueueURL, stateAttribute, strings.TrimSpace(strings.Join(parts, " ")))
	if len(in.MessageAttributes) > mostAttributes {
		return errAttributes
	}
	if !r.fifo() {
		in.DelaySeconds = seconds(min(delay, longestDelay))
	}
	return r.send(ctx, in)
}

// bury sends a copy to the dead letters. It goes without its State, so that it begins anew if
// somebody moves it back. If there is no room for the reason, OnError is told.
func (r *Retries) bury(ctx context.Context, m *message, reason error) (retryjob.Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	dead, text := *r.dead.Load(), engine.Text(reason.Error(), reasons[0])
	for _, most := range reasons {
		part := printable(text[:min(len(text), most)])
		in := r.letter(m, dead, engine.ErrorKey, part)
		if len(in.MessageAttributes) > mostAttributes {
			continue
		}
		err := r.send(limited, in)
		switch {
		case err == nil:
			if most == 0 {
				m.note = fmt.Errorf("given up, and has no room for the reason: %s", printable(text[:min(len(text), reasons[0])]))
			}
			return retryjob.Ended, r.remove(ctx, m.ReceiptHandle)
		case most == 0 || !noRoom(err):
			return retryjob.Handed, fmt.Errorf("%s: %w", dead, err)
		}
	}
	return retryjob.Handed, fmt.Errorf("%s: %w", dead, errAttributes) // SQS has allowed more than it says
}

// noRoom reports whether SQS refuses a message for what it is.
func noRoom(err error) bool {
	var e smithy.APIError
	return errors.As(err, &e) && slices.Contains([]string{
		"InvalidParameterValue", "InvalidMessageContents", "InvalidAttributeValue", "BatchRequestTooLong",
	}, strings.TrimSuffix(strings.TrimPrefix(e.ErrorCode(), "AWS.SimpleQueueService."), "Exception"))
}

// letter returns a copy of a message with one attribute of ours, in place of all that it has.
func (r *Retries) letter(m *message, queue, name, value string) *sqs.SendMessageInput {
	in := &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: m.Body, MessageAttributes: maps.Clone(m.MessageAttributes)}
	delete(in.MessageAttributes, stateAttribute)
	delete(in.MessageAttributes, engine.ErrorKey)
	if value != "" {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	if trace := m.Attributes["AWSTraceHeader"]; trace != "" {
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &trace},
		}
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

// handle handles a message for Run.
func (r *Retries) handle(ctx context.Context, msg types.Message, fn func(context.Context, types.Message) error) {
	settle := context.WithoutCancel(ctx)
	m := &message{Message: msg}
	m.release = r.keep(settle, m)
	defer m.release()
	outcome, err := r.attempt(ctx, settle, m, m.kept.Watch(func(ctx context.Context) error {
		msg.MessageAttributes = foreign(msg.MessageAttributes)
		return fn(ctx, msg)
	}))
	if outcome == retryjob.Done {
		err = r.remove(settle, msg.ReceiptHandle)
	}
	r.ended(ctx, m, err)
}

// ended tells what became of a message: the Observer, if the queue has been told, and OnError
// of what went wrong.
func (r *Retries) ended(ctx context.Context, m *message, err error) {
	if err == nil {
		err = m.job.Tell(ctx)
	}
	if err = errors.Join(m.note, err); err != nil {
		r.failed(ctx, fmt.Errorf("message %s: %w", aws.ToString(m.MessageId), err))
	}
}

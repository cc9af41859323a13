package retrykafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
)

const (
	sourceHeader = "retry-source"
	maxLetter    = 32 << 20 // of a dead letter; topics have limits of their own
	deadTime     = time.Minute
)

// forms are the forms of a dead letter, each for topics that refuse the one before.
var forms = []struct {
	what           string
	maxError       int
	source, record bool
}{
	{"complete", engine.MaxError, true, true},
	{"with the beginning of its error", 256, true, true},
	{"without its error", 0, true, true},
	{"without retry-error and retry-source", 0, false, true},
	{"without the record itself, which stays where it is", 256, true, false},
}

var delivery = retry.Policy{
	MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: 100 * time.Millisecond}, MaxDelay: 2 * time.Second,
}

// bury puts a copy of the record into the dead letter topic. It ends Run if that fails. The
// brokers refuse a batch as a whole, so a letter that was refused is sent again alone.
func (j *job) bury(reason error) bool {
	ctx, cancel := context.WithTimeout(j.life, deadTime)
	defer cancel()
	text, form := reason.Error(), 0
	j.alone.RLock()
	err := j.send(ctx, form, text)
	j.alone.RUnlock()
	if refused(err) {
		j.alone.Lock()
		defer j.alone.Unlock()
		for err = j.send(ctx, form, text); refused(err) && form < len(forms)-1; err = j.send(ctx, form, text) {
			form++
		}
	}
	switch {
	case err != nil:
		j.stop(fmt.Errorf("%s: topic %s, for records that are given up: %w", j.source(), j.dead(j.at.topic), err))
	case form > 0:
		j.failed(fmt.Errorf("%s: topic %s has the dead letter %s, because a larger one was refused; its error: %s",
			j.source(), j.dead(j.at.topic), forms[form].what, engine.Text(text, engine.MaxError)))
	}
	return err == nil
}

// refused reports whether a topic does not take a record, and may take another one.
func refused(err error) bool {
	return slices.ContainsFunc([]error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp},
		func(target error) bool { return errors.Is(err, target) })
}

// send sends the dead letter in a form, again and again unless its topic refuses it for good.
func (j *job) send(ctx context.Context, form int, text string) error {
	var answer error
	err := delivery.Execute(ctx, func(ctx context.Context) error {
		letter := j.letter(form, text)
		err := j.client.ProduceSync(ctx, letter).FirstErr()
		if errors.Is(err, kerr.UnknownTopicID) { // another topic has the name by now
			j.client.PurgeTopicsFromProducing(letter.Topic)
		}
		if e := (*kerr.Error)(nil); errors.As(err, &e) {
			if answer = err; !e.Retriable {
				return retry.MarkFinal(err)
			}
		}
		return err
	})
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("takes nothing for %v: %w", deadTime, cmp.Or(answer, err))
	}
	return err
}

// letter returns the dead letter in a form.
func (j *job) letter(form int, text string) *kgo.Record {
	r, f := j.record, forms[form]
	letter := &kgo.Record{Topic: j.dead(r.Topic), Key: []byte(j.source())}
	if f.record {
		letter.Key, letter.Value, letter.Timestamp = r.Key, r.Value, r.Timestamp
		for _, h := range r.Headers {
			if h.Key != engine.ErrorKey && h.Key != sourceHeader {
				letter.Headers = append(letter.Headers, h)
			}
		}
	}
	if f.maxError > 0 {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: engine.ErrorKey, Value: []byte(engine.Text(text, f.maxError))})
	}
	if f.source {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: sourceHeader, Value: []byte(j.source())})
	}
	return letter
}

// source returns where the record is.
func (j *job) source() string { return fmt.Sprintf("%v/%d", j.at, j.record.Offset) }

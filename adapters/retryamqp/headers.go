package retryamqp

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The headers of a copy, besides those of package engine.
const (
	expiresHeader = "retry-expires" // in milliseconds of Unix time
	copyHeader    = "retry-copy"    // the number of a copy, by which it is known when it is returned
)

// dropped has the headers that a copy does not have: ours, those that the broker sets, and
// further queues that the first publisher wanted. With x-death, the broker would take a second
// wait for a cycle, and drop the copy.
var dropped = map[string]bool{
	engine.StateKey: true, engine.LostKey: true, engine.DueKey: true, expiresHeader: true, engine.ErrorKey: true, copyHeader: true,
	"x-death": true, "x-first-death-exchange": true, "x-first-death-queue": true, "x-first-death-reason": true,
	"x-last-death-exchange": true, "x-last-death-queue": true, "x-last-death-reason": true,
	"x-delivery-count": true, "x-acquired-count": true, "x-stream-offset": true, "CC": true, "BCC": true,
}

// delivery is a message with what its headers say of the job.
type delivery struct {
	amqp.Delivery

	job     retryjob.Stored
	due     time.Time
	expires time.Time // zero means never
}

// read reads the headers of a message. The error says that somebody has changed them.
func (d *delivery) read() (err error) {
	d.due, err = engine.Load(d.header, &d.job)
	if at := d.header(expiresHeader); at != "" {
		ms, bad := strconv.ParseInt(at, 10, 64)
		if d.expires = time.UnixMilli(ms); bad != nil {
			err = cmp.Or(err, fmt.Errorf("%s: %w", expiresHeader, bad))
		}
	} else if after, bad := time.ParseDuration(d.Expiration + "ms"); bad == nil {
		d.expires = time.Now().Add(after)
	}
	return err
}

// header returns the text of a header. Other clients may have moved the message.
func (d *delivery) header(name string) string {
	if value := d.Headers[name]; value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

// write writes into the headers of a copy what read reads.
func (d *delivery) write(headers amqp.Table, delay time.Duration) error {
	if !d.expires.IsZero() {
		headers[expiresHeader] = strconv.FormatInt(d.expires.UnixMilli(), 10)
	}
	var due time.Time
	if delay > 0 {
		due = time.Now().Add(delay)
	}
	return engine.Save(func(name, value string) { headers[name] = value }, &d.job, due)
}

// copied returns a copy of the message without headers of ours but its number, which is to come.
func (r *Retries) copied(msg *amqp.Delivery) amqp.Publishing {
	p := amqp.Publishing{
		Headers: amqp.Table{copyHeader: int64(0)}, Body: msg.Body, DeliveryMode: amqp.Persistent, ContentType: msg.ContentType,
		ContentEncoding: msg.ContentEncoding, Priority: msg.Priority, CorrelationId: msg.CorrelationId,
		ReplyTo: msg.ReplyTo, MessageId: msg.MessageId, Timestamp: msg.Timestamp, Type: msg.Type, AppId: msg.AppId,
	}
	for name, value := range msg.Headers {
		if !dropped[name] {
			p.Headers[name] = value
		}
	}
	for _, auth := range r.Conn.Config.SASL { // the broker refuses the ID of another user
		if plain, ok := auth.(*amqp.PlainAuth); ok && plain.Username == msg.UserId {
			p.UserId = msg.UserId
		}
	}
	return p
}

// explain puts the reason into a dead letter, as far as there is room.
func (r *Retries) explain(p *amqp.Publishing, reason error) {
	p.Headers[engine.ErrorKey] = ""
	text := reason.Error()
	if text = engine.Text(text, min(engine.MaxError, max(r.room(p), 0))); text == "" {
		delete(p.Headers, engine.ErrorKey)
	} else {
		p.Headers[engine.ErrorKey] = text
	}
}

// room is how much longer the headers of a message may be. All have to be in one frame: the
// broker closes the connection of a client that sends a longer one.
func (r *Retries) room(p *amqp.Publishing) int {
	if r.Conn.Config.FrameSize <= 0 {
		return engine.MaxError
	}
	const overhead = 8 + 14 + 1 + 1 + 8 // of the frame, the content, and properties of a fixed size
	n := r.Conn.Config.FrameSize - overhead - fieldSize(p.Headers)
	for _, text := range []string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId,
	} {
		n -= 1 + len(text)
	}
	return n
}

// fieldSize is how many bytes a value of a header takes at most.
func fieldSize(value any) (n int) {
	switch v := value.(type) {
	case string:
		n = len(v)
	case []byte:
		n = len(v)
	case []any:
		for _, e := range v {
			n += fieldSize(e)
		}
	case amqp.Table:
		for name, e := range v {
			n += 1 + len(name) + fieldSize(e)
		}
	default:
		return 1 + 8
	}
	return 1 + 4 + n
}

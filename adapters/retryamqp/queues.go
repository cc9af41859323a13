package retryamqp

import (
	"math/bits"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// A wait queue goes when it was not declared for as long as its messages wait and
	// idle more. It is declared again before half of idle has passed.
	idle = time.Minute

	// maxWait is the longest time of a wait queue, in milliseconds. Longer waits are
	// made of several.
	maxWait = 1 << 31
)

// queue is where a copy goes.
type queue struct {
	name string
	ours bool // to be declared, with args
	args amqp.Table
}

// dead is the queue of messages that were given up.
func (r *Retries) dead() queue { return queue{name: r.queue + ".dead", ours: true} }

// waiting is the queue whose messages come back after so many milliseconds.
func (r *Retries) waiting(ms int64) queue {
	return queue{r.queue + ".wait." + strconv.FormatInt(ms, 10), true, amqp.Table{
		"x-message-ttl": ms, "x-expires": ms + idle.Milliseconds(),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.queue,
	}}
}

// rounded returns the time of the wait queue for a delay, in milliseconds: rounded up to
// an eighth of the power of two below it.
func rounded(delay time.Duration) int64 {
	ms := min(uint64(max(delay, 1)-1)/uint64(time.Millisecond)+1, maxWait)
	unit := uint64(1) << max(bits.Len64(ms)-4, 0)
	return int64((ms + unit - 1) / unit * unit) //nolint:gosec // at most maxWait
}

package retryamqp_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// A wait queue is never early, at most an eighth late, and there are few.
func TestRounded(t *testing.T) {
	t.Parallel()
	queues := map[int64]bool{}
	for range 100_000 {
		delay := time.Duration(math.Exp(rand.Float64() * math.Log(float64(time.Hour))))
		ms := retryamqp.Rounded(delay)
		queues[ms] = true
		got := time.Duration(ms) * time.Millisecond
		require.GreaterOrEqual(t, got, delay)
		require.LessOrEqual(t, got, delay+delay/8+time.Millisecond+time.Millisecond/8)
	}
	assert.Less(t, len(queues), 8*23)
	for delay, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1024,
		1030 * time.Millisecond: 1152, math.MaxInt64: 1 << 31, -1: 1,
	} {
		assert.Equal(t, want, retryamqp.Rounded(delay), "%v", delay)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := retryamqp.New(nil, "jobs", nil)
	require.EqualError(t, err, "retryamqp: the connection is nil, or the queue has no name")
	_, err = retryamqp.New(nil, "jobs", &retry.Policy{MaxDelay: -time.Second})
	require.ErrorContains(t, err, "-1s")
	_, err = retryamqp.New(connect(t, &enginetest.Cable{}), "enginetest-none", nil)
	require.ErrorContains(t, err, "retryamqp: enginetest-none: Exception (404)")
}

// A State that cannot be read is no endless loop.
func TestBrokenState(t *testing.T) {
	t.Parallel()
	q := open(t, "quorum")
	w, err := q.Start(nil, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, w.Stop(t.Context())) }()
	require.NoError(t, q.channel.Publish("", q.name, true, false, amqp.Publishing{
		Body: []byte("x"), Headers: amqp.Table{"retry-state": "f=many"},
	}))
	require.Eventually(t, func() bool {
		o, _ := q.Outcome(t.Context(), "x")
		return o.Err == `retry-state: retry: state: f=many: strconv.Atoi: parsing "many": invalid syntax`
	}, 5*time.Second, time.Millisecond)
}

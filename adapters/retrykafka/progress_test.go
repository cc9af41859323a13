package retrykafka_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 22, 9, 0, 0, 123000000, time.UTC)
	for _, test := range []struct {
		progress retrykafka.Progress
		offset   int64
		metadata string
	}{
		{retrykafka.Progress{Next: 7}, 7, ""},
		{
			retrykafka.Progress{Next: 9, Marks: []retrykafka.Mark{{Offset: 8, Running: true}, {
				Offset: 5, State: retrykafka.StateText{Failures: 2, RateLimited: 1, First: first}, Due: 1000,
			}}},
			5, `{"retry":[{"o":5,"s":"f=2 r=1 t=2026-11-22T09:00:00.123Z","d":1000},{"o":8,"r":true}],"next":9}`,
		},
	} {
		offset, metadata := retrykafka.Commit(test.progress)
		assert.Equal(t, test.offset, offset)
		assert.Equal(t, test.metadata, metadata)
		assert.Equal(t, test.progress, retrykafka.ProgressOf(offset, &metadata))
	}
}

// Metadata of others, and none, says only that the records before the offset have ended.
func TestProgressOfOthers(t *testing.T) {
	t.Parallel()
	moved := `{"retry":[{"o":5}],"next":9}` // committed with another offset
	for _, metadata := range []*string{nil, new(string), &moved, new("kgo-1234"), new(`{"retry":[{"o":"x"}]}`), new(`{"next":50}`)} {
		assert.Equal(t, retrykafka.Progress{Next: 7}, retrykafka.ProgressOf(7, metadata))
	}
	assert.Equal(t, retrykafka.Progress{}, retrykafka.ProgressOf(-1, nil))
}

// Counts that cannot be are as many as can be, and stay exhausted.
func TestForgedProgress(t *testing.T) {
	t.Parallel()
	forged := `{"retry":[{"o":5,"s":"f=9223372036854775807 r=9223372036854775807 p=9223372036854775807"}],"next":9}`
	p := retrykafka.ProgressOf(5, &forged)
	want := retrykafka.StateText{Failures: 999_999, RateLimited: 999_999, Pending: 999_999}
	assert.Equal(t, []retrykafka.Mark{{Offset: 5, State: want}}, p.Marks)
	p.Marks[0].State.Failures++
	p.Marks[0].State.First = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, metadata := retrykafka.Commit(p)
	assert.Equal(t, []retrykafka.Mark{{Offset: 5, State: want}}, retrykafka.ProgressOf(5, &metadata).Marks)
}

// The largest metadata fits into what brokers take.
func TestLargestProgress(t *testing.T) {
	t.Parallel()
	p := retrykafka.Progress{Next: math.MaxInt64}
	for i := range int64(retrykafka.Most) {
		p.Marks = append(p.Marks, retrykafka.Mark{
			Offset: math.MaxInt64 - i, Due: math.MaxInt64 / int64(time.Millisecond), Running: true,
			State: retrykafka.StateText(retry.State{
				Failures: math.MaxInt, RateLimited: math.MaxInt, Pending: math.MaxInt,
				First: time.Date(2026, 11, 22, 9, 0, 0, 123456789, time.FixedZone("", 7200)),
			}),
		})
	}
	_, metadata := retrykafka.Commit(p)
	assert.LessOrEqual(t, len(metadata), 4096)
	assert.Equal(t, retrykafka.Most, strings.Count(metadata, "{")-1)
}

func TestMain(m *testing.M) {
	if os.Getenv(soakServer) != "" {
		if serve() != nil {
			os.Exit(1)
		}
		return
	}
	testkit.AtOnce(m, 10)
}

const soakServer = "RETRYKAFKA_SERVER"

// serve is a process with brokers, which keep 64 MB of a partition. It ends with its standard input.
func serve() error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer cluster.Close()
	for topic, partitions := range map[string]int32{"jobs": 8, "jobs.dead": 1} {
		configs := map[string]string{"retention.bytes": "64000000", "segment.bytes": "8000000"}
		if err := cluster.CreateTopic(topic, partitions, configs); err != nil {
			return err
		}
	}
	fmt.Println(cluster.ListenAddrs()[0])
	go func() {
		for range time.Tick(time.Second) {
			cluster.ApplyRetention()
		}
	}()
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

// TestSoak has workers come and go beside one that stays, while records of up to 1 MB succeed,
// fail and are given up, for RETRY_TEST_SOAK. Goroutines and memory do not grow.
func TestSoak(t *testing.T) { //nolint:paralleltest // it counts goroutines
	duration := testkit.Must(time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_SOAK"), "5s")))(t)
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), soakServer+"=1")
	testkit.Must(server.StdinPipe())(t)
	out := testkit.Must(server.StdoutPipe())(t)
	require.NoError(t, server.Start())
	address := testkit.Must(bufio.NewReader(out).ReadString('\n'))(t)
	s := &soak{t: t, seeds: kgo.SeedBrokers(strings.TrimSpace(address)), free: make(chan struct{}, 200)}
	s.client = testkit.Must(kgo.NewClient(s.seeds))(t)
	defer s.client.Close()
	stop := s.worker()
	var early [2]int
	const rounds = 5
	for n := range rounds {
		s.round(duration / rounds)
		goroutines, heap := s.measure()
		t.Logf("%v: %d records, %d goroutines, %d kB", duration/rounds*time.Duration(n+1), s.sent, goroutines, heap/1000)
		switch n {
		case 0:
			early = [2]int{goroutines, heap}
		case rounds - 1:
			assert.LessOrEqual(t, goroutines, early[0]+5)
			assert.LessOrEqual(t, heap, early[1]*21/20+4_000_000)
		}
	}
	stop()
	assert.EqualValues(t, s.sent, s.ended.Load())
}

type soak struct {
	t      *testing.T
	seeds  kgo.Opt
	client *kgo.Client
	free   chan struct{} // places for records
	sent   uint64
	ended  atomic.Int64
}

// measure returns the goroutines and the bytes on the heap while a worker waits for records.
func (s *soak) measure() (goroutines, heap int) {
	time.Sleep(time.Second) // connections are closed in the background
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int(m.HeapAlloc) //nolint:gosec // it fits
}

// round sends records while workers come and go, until all have ended.
func (s *soak) round(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	stop := s.worker()
	for n := 0; ctx.Err() == nil; n++ {
		s.free <- struct{}{}
		value := make([]byte, 50_000+rand.N(949_000))
		binary.BigEndian.PutUint64(value, s.sent)
		s.sent++
		if err := s.client.ProduceSync(s.t.Context(), &kgo.Record{Topic: "jobs", Value: value}).FirstErr(); err != nil {
			s.t.Error(err)
		}
		if n%300 == 299 {
			stop()
			stop = s.worker()
		}
	}
	for range cap(s.free) { // until all have ended
		s.free <- struct{}{}
	}
	for range cap(s.free) {
		<-s.free
	}
	stop()
}

// worker starts a worker, and returns what stops it.
func (s *soak) worker() (stop func()) {
	r := &retrykafka.Retries{
		Parallel: 4, Options: []kgo.Opt{s.seeds, kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.HeartbeatInterval(200 * time.Millisecond)},
		OnError: func(context.Context, error) {},
		Policy: &retry.Policy{
			MaxAttempts: 3, Backoff: retry.Constant(100 * time.Millisecond), Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
				if e.Kind != retry.Retrying {
					s.ended.Add(1)
					<-s.free
				}
			}},
		},
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	over := make(chan error, 1)
	go func() {
		over <- r.Run(ctx, func(_ context.Context, r *kgo.Record) error {
			switch n := binary.BigEndian.Uint64(r.Value); n % 10 {
			case 0:
				return fmt.Errorf("it fails always: %s", strings.Repeat("x", 10_000))
			case 1, 2:
				if rand.N(2) == 0 {
					return assert.AnError
				}
			}
			return nil
		})
	}()
	return func() {
		cancel()
		if err := <-over; err != nil {
			s.t.Error(err)
		}
	}
}

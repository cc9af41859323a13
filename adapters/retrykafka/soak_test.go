package retrykafka_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
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
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_SOAK"), "5s"))
	require.NoError(t, err)
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), soakServer+"=1")
	_, err = server.StdinPipe()
	require.NoError(t, err)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := &soak{t: t, seeds: kgo.SeedBrokers(strings.TrimSpace(address)), free: make(chan struct{}, 200)}
	s.client, err = kgo.NewClient(s.seeds)
	require.NoError(t, err)
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
			MaxAttempts: 3, Backoff: retry.Constant(100 * time.Millisecond), Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
				if e.Kind != retry.Retrying {
					s.ended.Add(1)
					<-s.free
				}
			}),
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

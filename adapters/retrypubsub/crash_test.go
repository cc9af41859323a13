package retrypubsub_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestCrash kills worker processes at random moments. The server is in the process of the
// test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			s := startServer(t)
			q := openOn(t, s, startOneByOne(t, s), plain)
			return q, q.address + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			address, name, _ := strings.Cut(address, " ")
			q := attach(t, address, name)
			q.single = true
			return q
		},
		Forgets: true,
	}
	crash.Run(t)
}

// oneByOne sends a stream one message, and the next when that is answered, as the service
// does for a MaxOutstandingMessages of 1. The fake server has no such limit.
type oneByOne struct {
	pubsubpb.SubscriberServer

	mu       sync.Mutex
	answered map[string]chan struct{} // by acknowledgement ID
}

func startOneByOne(t testing.TB, s *server) string {
	t.Helper()
	return front(t, s, &oneByOne{SubscriberServer: &s.GServer, answered: map[string]chan struct{}{}})
}

// front serves a server at another address, for messages of any size.
func front(t testing.TB, s *server, subscriber pubsubpb.SubscriberServer) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := grpc.NewServer(grpc.MaxRecvMsgSize(20 << 20))
	pubsubpb.RegisterPublisherServer(served, &s.GServer)
	pubsubpb.RegisterSubscriberServer(served, subscriber)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(served.Stop)
	return listener.Addr().String()
}

func (o *oneByOne) answer(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if c := o.answered[id]; c != nil {
			close(c)
			delete(o.answered, id)
		}
	}
}

// Acknowledge implements [pubsubpb.SubscriberServer].
func (o *oneByOne) Acknowledge(ctx context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	defer o.answer(r.GetAckIds()...)
	return o.SubscriberServer.Acknowledge(ctx, r)
}

// ModifyAckDeadline implements [pubsubpb.SubscriberServer].
func (o *oneByOne) ModifyAckDeadline(ctx context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if r.GetAckDeadlineSeconds() == 0 {
		defer o.answer(r.GetAckIds()...)
	}
	return o.SubscriberServer.ModifyAckDeadline(ctx, r)
}

// StreamingPull implements [pubsubpb.SubscriberServer].
func (o *oneByOne) StreamingPull(stream pubsubpb.Subscriber_StreamingPullServer) error {
	return o.SubscriberServer.StreamingPull(pausing{stream, o})
}

type pausing struct {
	pubsubpb.Subscriber_StreamingPullServer

	to *oneByOne
}

// Send implements [pubsubpb.Subscriber_StreamingPullServer].
func (p pausing) Send(r *pubsubpb.StreamingPullResponse) error {
	answered := make(chan struct{})
	for _, msg := range r.GetReceivedMessages() { // one, or none
		p.to.mu.Lock()
		p.to.answered[msg.GetAckId()] = answered
		p.to.mu.Unlock()
	}
	if err := p.Subscriber_StreamingPullServer.Send(r); err != nil || len(r.GetReceivedMessages()) == 0 {
		return err
	}
	select {
	case <-answered:
	case <-p.Context().Done():
	}
	return nil
}

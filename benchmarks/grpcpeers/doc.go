// Package grpcpeers compares what retrying costs a unary gRPC call over loopback that
// succeeds at once: behind an interceptor that does nothing, with retrygrpc, and with what
// else retries gRPC calls in Go.
//
//	go test -run '^$' -bench . -benchtime 5000x ./grpcpeers    # from benchmarks/
//
// One iteration is one call of every contestant, in random order, so that a machine that is
// busy for a while falls on all of them. The ratios are those of the medians to the
// interceptor that does nothing. TestAllocs counts allocations, and TestSame proves that
// all of them retry the same.
package grpcpeers

// Package retryjetstream lets a [retry.Policy] decide when NATS JetStream redelivers a message:
//
//	retries := &retryjetstream.Retries{Policy: policy, JetStream: js, Consumer: consumer, States: states}
//	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
//		go func() {
//			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Data()) })
//			if err != nil {
//				log.Print(err) // the server could not be told, and the message comes again
//			}
//		}()
//	})
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome when
// the server has it; no Budget is asked.
//
// Handle acknowledges the message, has it delivered again when the policy says, or
// terminates it. While the function runs, Handle tells the server so: AckWait need not be as
// long as the work.
//
// # What JetStream counts, and where the State is
//
// JetStream counts deliveries, and has no place in a message for anything else. The
// [retry.State] is in a key-value bucket, with a note when an attempt begins. A failure costs
// one round trip more, a redelivery two, and the end of a message that was redelivered one; a
// message that succeeds at once costs none. An attempt that has begun and has left no outcome
// is a failure. A first delivery that has left nothing is one too, a later one is not.
//
// The first delivery counts also if the message is in the buffer of a client for longer than
// AckWait, or when the process ends. So start handlers with go, as above; as many run as
// MaxAckPending allows. Or let goroutines take one message at a time with Next.
//
// # How messages end
//
// A message that is given up is handed to [Retries.Dead], if set, and then terminated. An
// advisory of the server, from 2.10.4 on, has the first 8 KiB of the error. A panic ends
// the message; the error has its stack. A message that comes too early is sent back.
//
// The consumer must have explicit acknowledgements, no BackOff, which distorts the waits, and
// no MaxDeliver, with which the server drops messages. Messages that wait count towards
// MaxAckPending, 1000 by default: when so many wait, no other is delivered.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again after AckWait and is run at once, unless the
// policy is exhausted or NonIdempotent. A message that fails after the context of Handle
// has ended comes again after a second; [retryjob.Stored] says which failures are still judged.
// Drain the consumer before you end the context. The server has 10 seconds to answer each
// request, and Dead has a minute: if the server is silent, Handle returns in half a minute after
// the function, and after Dead. A new policy counts from the next attempt.
//
// # Lost connections
//
// A connection that breaks loses no message. If Handle could not tell the server the outcome,
// the message comes again after AckWait: a success is run again, and a failure whose State
// could not be stored has no other wait. If the server hears nothing of a message for
// AckWait, another worker gets it; if the first still runs it, that outcome is not stored,
// and counts as a failure. A server before 2.10.15 may then deliver a message as new: the
// State is read at each first delivery, and a message that has just ended begins anew.
package retryjetstream

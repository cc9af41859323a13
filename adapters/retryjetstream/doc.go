// Package retryjetstream has NATS JetStream redeliver messages as a [retry.Policy] says:
//
//	states, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "retries", TTL: 7 * 24 * time.Hour})
//	if err != nil {
//		return err
//	}
//	retries, err := retryjetstream.New(js, consumer, states, policy)
//	if err != nil {
//		return err
//	}
//	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
//		go func() {
//			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Data()) })
//			if err != nil {
//				log.Print(err) // the server could not be told, and the message comes again
//			}
//		}()
//	})
//
// Handle acknowledges the message, or has it delivered again when the policy says, or
// terminates it. Every failure is classified, hints of servers are heeded, and waits
// have jitter. [retry.Policy.AttemptTimeout], Budget and Observer work as in Execute.
// While the function runs, the server is told that it does, so AckWait need not be as
// long as the work.
//
// # What JetStream counts, and where the State is
//
// JetStream counts every delivery of a message, whether anybody has seen it or not, and a
// message on its way has no place for anything else. The [retry.State] is in a key-value
// bucket, and with it whether an attempt has begun that the State does not have. A failure
// costs one round trip more, a redelivery two, and the end of a message that was
// redelivered one; a message that succeeds at once costs none. An attempt that has begun
// and has left no outcome was lost with its worker, or could not store the State. It is a
// failure. A first delivery that has left nothing counts as such an attempt. Other
// deliveries that no Handle has seen cost none.
//
// A message in the buffer of a client counts as delivered, too: if what is there for longer
// than AckWait, or at the end of the process, was never delivered before, an attempt is
// lost. Handlers that are started with go, as above, leave nothing there, and as many run
// as MaxAckPending allows. For fewer, have so many goroutines take one message after the
// other with Next of the consumer.
//
// # Lost connections
//
// A connection that breaks or goes silent loses no message. What Handle could not tell the
// server comes again after AckWait: a success is run again, and a failure whose State could
// not be stored has no other wait. If the server hears nothing of a message for AckWait, it
// gives the message to another worker, while the first may still run it. The outcome of the
// first attempt is then not stored, and counts as a failure. So AckWait should be longer
// than the outages that you expect; TestOutage has connections fail at random.
//
// A server before 2.10.15 may deliver a message as new again when a client loses its
// connection. So the State is read at each first delivery, which costs a round trip. A
// message that has ended just before begins anew.
//
// # How messages end
//
// A message that is given up is handed to [Retries.Dead], if set, and then terminated
// with the error as the reason, which the server puts into an advisory, from version
// 2.10.4 on, the first 8 KiB of it. A panic ends the message, one
// of the policy's Observer or Classifier too; the error has its stack. A panic of Dead is
// its failure. Attempts are never early: what comes before its time, after a restart of the
// server, is sent back.
//
// New refuses a consumer with a BackOff, which distorts the waits, or a MaxDeliver, with
// which the server drops messages, or without explicit acknowledgements. A message that
// waits counts for MaxAckPending, 1000 by default: when so many wait, no other is
// delivered. Set it to more than the failures of your longest outage.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again after AckWait, and is run at once. If the policy
// is exhausted by then, or is NonIdempotent, since the attempt may have taken effect, the
// message ends without being run. When the context of Handle is canceled and the function
// fails, the message comes again after a second and no attempt is counted, with the
// exceptions of [retry.Call.Interrupted]: a deadline of the context is one of the attempt,
// and a failure of a NonIdempotent policy is judged. Drain the consumer before you end the
// context: what reaches it after Stop, which does not wait, counts as delivered, and as
// lost if that was its first delivery. A message under way follows a new policy from its
// next failure on.
package retryjetstream

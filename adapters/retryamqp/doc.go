// Package retryamqp has RabbitMQ deliver messages again as a [retry.Policy] says:
//
//	retries, err := retryamqp.New(connection, "jobs", policy)
//	if err != nil {
//		return err
//	}
//	defer retries.Close()
//	for msg := range deliveries { // of the queue jobs
//		go func() {
//			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Body) })
//			if err != nil {
//				log.Print(err) // the broker could not be told, and the message comes again
//			}
//		}()
//	}
//
// Handle acknowledges the message when it has succeeded. Every failure is classified,
// hints of servers are heeded, and waits have jitter. [retry.Policy.AttemptTimeout],
// Budget and Observer work as in Execute.
//
// # How messages wait
//
// AMQP has no delay. A failed message is published to a wait queue, whose messages go
// back to the queue after a time, and is acknowledged when the broker has confirmed the
// copy. A broker that fails while messages go back may lose them, as with every
// dead-letter exchange that is at-most-once. Each wait queue has one time, so no message
// waits behind one that waits for longer. There are eight of them for a doubling of the
// wait, and waits are rounded up: 1 s to 1024 ms, and 1.03 s to 1152 ms. A copy is never
// early, and at most an eighth of the wait and some milliseconds late. Wait queues are
// called jobs.wait.1024 and so on, are durable, and go when they have not been used for a
// minute more than their time.
//
// A copy keeps the body and the properties of the message, but for its expiration, its
// user ID, headers that begin with x-, which belong to the broker, and CC and BCC. Its
// routing key is the name of the queue. The order of messages is lost.
//
// # What RabbitMQ counts, and where the State is
//
// The [retry.State] is in the header retry-state, in its text form, and when the message
// is due in retry-due, in milliseconds of Unix time. A quorum queue counts in
// x-delivery-count how often a message came back without an answer. Each time is a lost
// attempt, and so a failure. On a classic queue, which says only that a message came
// back, Handle publishes a copy with the failure counted, which is run a second later.
//
// A message in the buffer of a channel counts as delivered, too, and so does one that
// Handle cannot publish a copy of. So set the prefetch count, [amqp091.Channel.Qos], to
// no more than you run.
//
// # How messages end
//
// A message that is given up goes to the queue jobs.dead, with the first 8 KiB of the
// error in the header retry-error. If it is moved back, it begins anew. A panic ends the
// message, one of the policy's Observer or Classifier too; the error has its stack. A
// delivery-limit of the queue ends messages whatever the policy says. RabbitMQ 4 sets one
// of 20 unless the argument or policy delivery-limit says otherwise.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again as soon as the broker notices, and is run at
// once. If the policy is exhausted by then, or is NonIdempotent, since the attempt may
// have taken effect, the message ends without being run. When the context of Handle is
// canceled and the function fails, the message comes again after a second, and no attempt
// is counted, with the exceptions of [retry.Call.Interrupted]: a deadline of the context
// is one of the attempt, and a failure of a NonIdempotent policy is judged. Stop consuming
// before you end the context, and close the connection after the last Handle. A message
// under way follows a new policy from its next failure on.
//
// # Lost connections
//
// No message is lost, but some go on twice. RabbitMQ cannot put a copy into one queue and
// take the message from another in one step, and knows no duplicates. If the worker or its
// connection is lost when the broker has the copy and not the acknowledgement, both go on,
// each with a count of its own: of 4 attempts, 7 are made if this happens after the first.
// Both may be given up, or one may succeed. The message is run again at once, without the
// policy's wait, and even while a worker that has lost only its connection still runs it.
// TestLostBetweenCopyAndAck has this moment, and TestOutage has connections break and go
// silent at random. If work must not be done twice, have it ask for a key of the message,
// as its ID, which copies keep.
//
// # What it cannot do
//
// Retries do not reconnect: make new ones with the new connection. If only their own
// channel is closed, Handle returns an error and leaves messages unanswered: close the
// connection then, and all come again.
package retryamqp

// Package retryamqp lets a [retry.Policy] decide when RabbitMQ delivers a message again:
//
//	retries := &retryamqp.Retries{Policy: policy, Conn: conn, Queue: "jobs"}
//	defer func() { _ = retries.Close() }()
//	for msg := range deliveries {
//		go func() {
//			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Body) })
//			if err != nil {
//				log.Print(err) // the broker could not be told, and the message comes again
//			}
//		}()
//	}
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of a failure when the
// broker has it; no Budget is asked.
//
// Handle acknowledges the message when it has succeeded, and then the Observer is told. The
// broker does not answer an acknowledgement: it may be lost with the connection.
//
// # What RabbitMQ counts, and where the State is
//
// The [retry.State] is in the header retry-state, in its text form, and the due time is in
// retry-due, in milliseconds of Unix time, by the clock of the worker that wrote it. The worker
// that gets the message compares that with its own clock, so keep the clocks in step. A quorum queue counts in x-delivery-count
// how often a message came back without an answer. Each time is a lost attempt, and so a
// failure. A classic queue says only that a message came back. There, Handle publishes a copy
// with the failure counted, and the copy is run a second later. It does so too for a quorum
// queue that was declared with more arguments than x-queue-type: the broker then does not tell
// the type, and on a classic queue x-delivery-count is what the publisher says.
//
// Publishers can write these headers. They can use up the attempts of their own message, and
// not more: counts and the due time are made what the policy can lead to, and a message whose
// headers cannot be read ends.
//
// A message in the buffer of a channel counts as delivered, too: set the prefetch count,
// [amqp091.Channel.Qos], to no more than you run.
//
// # How messages wait
//
// AMQP has no delay. A failed message is published to a wait queue, whose messages go back
// to the queue after a time. It is acknowledged when the broker has confirmed the copy. A
// broker that fails while messages go back may lose them, as with every dead-letter exchange
// that is at-most-once. Each wait queue has one time, so no message waits behind one that
// waits for longer. There are eight queues for each doubling of the wait, and waits are
// rounded up: 1 s to 1024 ms, and 1.03 s to 1152 ms. A copy is never early, and at most an
// eighth of the wait and some milliseconds late. Wait queues are called jobs.wait.1024 and so
// on, are durable, and go when they have not been used for a minute more than their time.
//
// A copy keeps the body, the properties, and the headers of the message. It loses the headers
// that the broker sets (x-death, x-first-death-… and x-last-death-…, x-delivery-count,
// x-acquired-count, x-stream-offset), CC and BCC, and the ID of a user that is not of Conn, which
// the broker would refuse. Its routing key is the name of the queue. The order of messages is
// lost.
//
// An expiration goes on counting from the first Handle, in the header retry-expires: a message
// that would expire before its next attempt is given up at once, with an error that says so.
// All headers have to be in one frame, of 128 KiB by default. A message that leaves no room
// there for its State, some 300 bytes, is given up after its first failure.
//
// # How messages end
//
// A message that is given up goes to the queue jobs.dead, or the one in [Retries.Dead], with
// the first 8 KiB of the error in the header retry-error, or as much as has room, and without an
// expiration. If it is moved back, it begins
// anew. A panic ends the message; the error has its stack. A function that calls
// runtime.Goexit has lost an attempt, and the message comes again. A delivery-limit of the
// queue, 20 by default in RabbitMQ 4, ends messages whatever the policy says.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again as soon as the broker notices, and is run at once,
// unless the policy is exhausted or NonIdempotent. A message that fails after the context of
// Handle has ended comes again after a second; [retryjob.Stored] says which failures are still
// judged. Stop consuming before you end the context, and close the connection after the last
// Handle. A new policy counts from the next attempt on.
//
// # Lost connections
//
// No message is lost, but some go on twice. RabbitMQ cannot put a copy into one queue and
// take the message from another in one step, and does not detect duplicates. If the worker or
// its connection is lost when the broker has the copy and not the acknowledgement, both go
// on, each with a count of its own: 4 attempts become 7 if this happens after the first.
// The message is run again at once, even while a worker that has lost only its connection
// still runs it. If work must not be done twice, let it check a key of the message, such as
// its ID, which copies keep.
//
// If the broker is silent, Handle returns in 15 seconds after the function with the client's
// heartbeat of 10 seconds, when the client closes the connection. Without heartbeats Handle closes
// the connection after a minute.
//
// A Retries does not reconnect: make a new one with a new connection. If only its channel is
// closed, Handle answers nothing: close the connection then, and they come again.
package retryamqp

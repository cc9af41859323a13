// Package retrypubsub lets a [retry.Policy] decide when Google Cloud Pub/Sub delivers a message
// again:
//
//	retries := &retrypubsub.Retries{Policy: policy, Subscription: "import", Publisher: jobs, Dead: dead}
//	err = subscriber.Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
//		err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Data) })
//		if err != nil {
//			log.Print(err) // the server could not be told, and the message comes again
//		}
//	})
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome when
// the server has it; no Budget is asked.
//
// Handle acknowledges the message when it has succeeded. With exactly-once delivery it waits
// for the server's answer, and returns the error of an acknowledgement that came too late.
// Without, the server does not answer, and the Observer is told of a success that may be lost
// with the connection.
//
// # Where the State is, and how messages wait
//
// A nack has no delay but that of the subscription's RetryPolicy, and the attributes of a
// message cannot be changed. So a message that has failed is published again, with the
// [retry.State] in the attribute retry-state and the due time in retry-due, and is acknowledged
// when the server has the copy. A copy that comes too early is held in memory until it is
// due, but no longer than [Retries.Hold]; then it is published again. The library extends
// the ack deadline meanwhile, up to MaxExtension, an hour by default. Messages that are held
// count towards MaxOutstandingMessages, 1000 by default: when so many are, no other is
// delivered.
//
// The clocks of the workers decide when a copy is due: one worker writes the due time by its
// clock, and the worker that gets the copy compares it with its own. If the two clocks differ
// by a minute, an attempt is early or late by a minute. Keep the clocks in step, as NTP does.
//
// Every subscription of the topic gets the copy. The attribute retry-subscription says whose
// it is, and Handle acknowledges the copies of others. The function does not see our attributes. Another subscription without Handle
// should have the filter NOT attributes:"retry-subscription". Or let the Publisher publish to a
// topic of its own, and receive from a subscription of that, too, with the same Retries.
//
// # Ordering keys
//
// A copy would come after the later messages of its key. So a message with an ordering key
// is never published again: its attempts are made one after the other while it is
// held, and the others of its key wait. Its waits must be shorter, taken together, than
// MaxExtension. Its State is in memory: if the worker stops or dies, it begins anew. Handle
// returns when it has ended, so OnError is told at once if the message has no policy, or could
// not start.
//
// # How messages end
//
// A message that is given up is published by Dead, with the first KiB of the error in the
// attribute retry-error, and acknowledged. It has its ordering key if Dead has
// EnableMessageOrdering. The dead-letter topic of the subscription will do. If it is moved
// back, it begins anew. A panic ends the message; the error has its stack. A message that cannot
// be published, because there is no such topic, or the credentials are refused, is nacked after a
// second, and comes again. A copy needs four attributes below the limit of 100, and 500 bytes
// below that of 10 MB. A message that leaves no such room is treated as one with an ordering
// key, and its dead letter does not say why.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again when its ack deadline is over, and is run at once.
// The server counts deliveries, if the subscription has a dead-letter policy, and moves a message to
// the dead-letter topic at MaxDeliveryAttempts, whatever the policy says. A copy begins at 1. A
// delivery need not be an attempt: a message that is in a client's buffer, or is held, when
// the worker stops has been delivered. So deliveries count only with
// [Retries.CountDeliveries]: each that had no answer is a failure. A NonIdempotent policy
// needs that.
//
// A message that fails after the context of Receive has ended comes again after a second;
// [retryjob.Stored] says which failures are still judged. A new policy counts from the next
// attempt on. If the server is silent, Receive returns in two minutes and a few seconds after its
// context and the functions have ended: the copy has a minute, and so has the library's answer.
// A Timeout in ShutdownOptions of the subscriber makes that shorter.
//
// # What goes on twice
//
// No message is lost, but some go on twice. The library gathers acknowledgements for 100 ms. If
// the worker or its connection is lost when the server has the copy and not the
// acknowledgement, both go on, each with a count of its own. Exactly-once delivery does not
// change that. And without it the server may deliver any message twice.
package retrypubsub

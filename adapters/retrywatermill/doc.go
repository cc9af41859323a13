// Package retrywatermill lets a [retry.Policy] decide when a router of Watermill handles a
// message again:
//
//	retries := &retrywatermill.Retries{Policy: policy, Publisher: broker, Poison: "poison"}
//	router.AddMiddleware(retries.Middleware)
//
// When the program ends, call Close of the Retries, and then of the router.
//
// It works with every broker that Watermill has a publisher and a subscriber for. Every failure
// is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome when
// the broker has the copy, or before the router acknowledges the message; no Budget is asked.
// Middleware that is added later runs in each attempt. Watermill's Retry has nothing left to
// do, and its Deduplicator, which knows messages by their payload, drops the copies.
//
// # Where the State is
//
// Watermill acknowledges a message or has it delivered again, and stores nothing with it. So a
// message that has failed is published again, to the topic that it came from, with the
// [retry.State] in its metadata, and acknowledged. The copy has about 400 bytes of metadata
// more: leave room for them below the broker's limit. It has a UUID of its own, because
// brokers drop what they know; the handler sees the first one. Every subscriber of the topic
// gets the copy. The metadata retry-handler says whose it is, and Middleware acknowledges
// copies for other handlers; the handler does not see this metadata, and does not pass it on. So all subscribers of the topic need Middleware, and a handler that is
// renamed forgets what waits. The order of messages is lost.
//
// # How messages wait
//
// A copy that comes too early is held in memory until it is due, but no longer than
// [Retries.Hold]; then it is published again. Meanwhile its subscriber takes no other message
// if it takes one at a time, as the subscribers of Redis Streams and SQL do. Hold and the work must be
// shorter, taken together, than the time after which the subscriber delivers again:
// AckWait of NATS, MaxIdleTime of Redis, AckDeadline of SQL.
//
// The clocks of the workers decide when a copy is due: one worker writes the due time by its
// clock, and the worker that gets the copy compares it with its own. If the two clocks differ
// by a minute, an attempt is early or late by a minute. Keep the clocks in step, as NTP does.
//
// Copies have the metadata of Watermill's package delay. A broker that heeds it, which is
// PostgreSQL or MySQL with a delayed publisher and subscriber, does not deliver the copy
// before the full second after it is due. For other brokers, PostgreSQL can keep the long
// waits: set [Retries.Delayed] to its delayed publisher and DelayedTopic to "requeue", and run
// Watermill's NewPostgreSQLDelayedRequeuer, without its middleware, to move them back.
//
// # How messages end
//
// A message that is given up goes to the topic in [Retries.Poison] with the metadata of
// Watermill's PoisonQueue, and the first 8 KiB of the error. If it is moved back, it begins
// anew. A panic ends the message; the error has its stack. A message that has no room for more
// metadata goes there as it came, and [Retries.Logger] is told the reason.
//
// If a copy cannot be published, because its topic does not exist, the credentials are refused,
// or it is too large, the next attempts are made in its place while they are due within Hold.
// After that the message comes again with these attempts not counted, a second later at the
// soonest, for as long as that takes, and the router logs why.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again when the broker notices. Watermill does not say that
// it was delivered before, so the attempt is not counted: a message that kills its worker
// comes again without end, and a NonIdempotent policy cannot know. If the broker counts
// deliveries, have [Retries.Lost] say how many there were: for JetStream, with an Unmarshaler
// that puts NumDelivered into the metadata. Messages that a client has in a buffer are delivered, too:
// set MaxAckPending to no more than run. A Lost attempt is a failure.
//
// The broker has a minute to answer when something is published. Middleware returns a second
// later than that after the handler, and at once when the subscriber no longer waits for the
// message; Close of the Retries returns when its context ends, whatever the broker does.
//
// A router that is closed leaves messages in progress unanswered, and they come again even if
// they have succeeded. Close r first: what is in progress is handed back or acknowledged.
// [retryjob.Stored] says which failures are still judged. A new policy counts from the next
// attempt on.
//
// # What goes on twice
//
// No message is lost, but some go on twice. If the worker or its connection is lost when the
// broker has the copy and not the acknowledgement, both go on, each with a count of its own. A
// subscriber that is through with its patience before the work is delivers the message again, and
// the outcome of the first attempt is not counted: AttemptTimeout belongs below that patience.
// With SQL, the two can be one: have the Publisher publish in [sql.TxFromContext] of the message.
//
// # What to set in Watermill
//
// These were seen in watermill-nats 2.1.3 and watermill-sql 4.1.2. A subscriber of NATS
// acknowledges what it leaves unanswered, unless SubscribeOptions have nats.ManualAck; and it
// deletes, when it is closed, a consumer that it has made, with what that knows. A
// subscriber of SQL with a queue schema that is closed in the middle of a batch acknowledges all
// of it: set SubscribeBatchSize to 1.
package retrywatermill

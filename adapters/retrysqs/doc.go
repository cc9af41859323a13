// Package retrysqs lets a [retry.Policy] decide when a message of AWS SQS is handled again:
//
//	retries := &retrysqs.Retries{Policy: policy, Client: client, QueueURL: url, Concurrency: 10}
//	err := retries.Run(ctx, func(ctx context.Context, msg types.Message) error { return work(ctx, *msg.Body) })
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome when
// SQS has it; no Budget is asked. In Lambda, the handler is [Retries.HandleLambda].
//
// # What SQS counts, and where the State is
//
// SQS counts how often a message was received, and keeps when that was for the first time.
// Nothing else of a message can be changed. If all receipts were failures that count, or were
// lost, then what SQS keeps is the [retry.State]: the message is hidden for the wait, with one
// request. Otherwise a copy is sent, with the State in the attribute retry-state, and the message
// is deleted. Otherwise means: after a failure that costs no attempt, after [retry.MarkPending],
// [retryjob.MarkNotStarted] and [retry.MarkProgress], when the worker stops, if PolicyFor has none,
// and after each failure under a NonIdempotent policy, to which a lost attempt is another thing
// than a failure.
//
// A receipt counts, also if its answer did not reach the worker. A message that has no attempt
// left when it is received ends with [retry.ErrLost]. No more messages are received than run.
// A copy is a new message, with an ID of its own.
//
// # How messages wait
//
// SQS knows whole seconds; waits are rounded up. It hides a message for 12 hours after a receipt
// at most. If more than 11 would be needed, a copy is sent, which SQS delays for 15 minutes, and
// which is then hidden until it is due, or is copied again. That costs no attempt. The clocks of
// workers decide when such a copy is due.
//
// A message that has no room for the State is not copied: all its attempts count, OnError is
// told, and it waits for 11 hours at most. There is no room if the message is of the largest
// size, which is 1 MiB for SQS and may be less for a queue, or if it has 10 attributes, which SQS
// counts without those of its own. Leave a kilobyte and one attribute to the adapter.
//
// A copy has all attributes of the message, with their types, and its X-Ray header. The function
// does not see retry-state, so that a message that it makes of those attributes begins anew.
//
// A publisher may write anything into retry-state. What cannot be read ends the message, counts
// are made what can be, and the message waits for a due time that no policy can have decided only
// once, for twice the longest wait of its policy.
//
// # FIFO queues
//
// A message that waits holds up its group. A copy would be behind the others of the group, so the
// message stays, and every receipt is an attempt: a failure that would cost none does, a worker
// that stops costs one, progress does not begin a new count, and a NonIdempotent message is given
// up at its second receipt. Only a wait of more than 11 hours sends a copy, behind the
// others. Run receives one message at a time. When its context ends, what it has comes again after
// six seconds, when nothing that it asked for is open any more.
//
// # How messages end
//
// A message that has succeeded is deleted. One that is given up is sent to the queue of
// [Retries.Dead], or of the RedrivePolicy, with the first 8 KiB of the error in the attribute
// retry-error, and is deleted. If there is no room for that, it has the first 256 bytes; if there
// is no room for these, it has none, and OnError is told the error. A message that is moved back
// begins anew. A panic ends the message; the error has its stack. A function that calls
// runtime.Goexit has lost an attempt.
//
// If the queue for dead letters refuses the message, OnError is told, other messages go on, and
// the message comes again after Visibility, until it is taken or SQS removes it, which the
// retention period of the queue decides. That counts as an attempt: the message is run again
// until the policy is exhausted. The queue for dead letters has to take messages of the same size.
//
// The policy decides, and a RedrivePolicy is for what it cannot see: SQS moves a message at the
// receipt after maxReceiveCount, without an error, and tells nobody. maxReceiveCount has to be
// MaxAttempts or more, or else Run refuses it. That is not checked for policies of PolicyFor.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again after Visibility and is run at once, unless the policy
// is exhausted or NonIdempotent. A message that fails after the context of Run has ended comes
// again after a second; [retryjob.Stored] says which failures are still judged. A new policy counts
// from the next attempt on. An attempt cannot take longer than 12 hours: SQS then gives the
// message to another worker.
//
// # Lost connections
//
// No message is lost. If SQS could not be told the outcome, the message comes again after
// Visibility: a success is run again, and a failure has no other wait. SQS cannot send a copy and
// delete the message in one step: if the worker dies between the two, or the answer to the first
// is lost, both go on, each with a count of its own, or there are two dead letters. If the copy is
// sent again because no answer came, a standard queue may have it twice, and a FIFO queue has it
// once. A standard queue may deliver a message twice at any time.
//
// # Silence
//
// The client of AWS waits for an answer without an end by default. The adapter does not, and needs
// no settings for that. After 10 seconds without an answer it asks again, over another
// connection: for half a minute in all to delete a message or to ask for the queue, for Visibility
// and half a minute at most to hide one, and for a minute for a copy or a dead letter. Meanwhile,
// Run keeps the message hidden. A request for messages is given up 10 seconds after SQS should have
// answered; messages in an answer that comes later have lost an attempt. [Retries.Run] and
// [Retries.HandleLambda] say when they return.
//
// # What was tested
//
// The tests run against an emulator, fauxqs. What the adapter needs of its visibility timeouts,
// receive counts, FIFO groups and redrives is as AWS documents, see TestEmulator, except: it does
// not limit the hiding of a message to 12 hours in all, takes any credentials and more than 10
// attributes, ignores the deletion of a message whose visibility timeout is over, hands out one
// message of a FIFO group where SQS hands out several, and answers a receiver that has gone.
package retrysqs

// Package retrystreams lets a [retry.Policy] decide when a message of a Redis Stream is
// handled again:
//
//	retries := &retrystreams.Retries{
//		Policy: policy, Redis: client, Stream: "jobs", Group: "workers", Consumer: hostname, Concurrency: 10,
//	}
//	err = retries.Run(ctx, func(ctx context.Context, msg redis.XMessage) error { return work(ctx, msg.Values) })
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome when
// Redis has it; no Budget is asked.
//
// The stream and its group have to exist: XGROUP CREATE jobs workers 0 MKSTREAM. The server
// has to be Redis 7 or a relative of it.
//
// # What Redis counts, and where the State is
//
// Redis counts deliveries, and a message cannot be changed. A message that has failed is
// copied to the stream {jobs}:workers:retry, which only this group reads, with the
// [retry.State] in the field retry-state and its ID in retry-id. A delivery that has left no
// outcome is a lost attempt, and so a failure. That is also one whose answer did not reach the
// worker. No more messages are taken than run.
//
// # How messages wait
//
// When a copy is due is in the sorted set {jobs}:workers:due, by the clock of the server. Each
// step is one script: a message waits, or a consumer has it, or it has ended, and never two of
// these. Waits are rounded up to milliseconds, and attempts are never early. A worker that is
// free takes what is due within a second, mostly at once. New messages, those that are due, and
// those of dead consumers take turns. The order of messages is lost.
//
// # How messages end
//
// A message that has succeeded is acknowledged. It stays in its stream, for other groups:
// trim the stream by age. A message that is deleted before its first attempt has ended is lost,
// and OnError is told; the copies of messages that have failed are safe.
//
// A message that is given up goes to the stream {jobs}:workers:dead, or the one in
// [Retries.Dead], with the first 8 KiB of the error in the field retry-error. If it is moved
// back to the stream, it begins anew. A panic ends the message; the error has its stack. A
// function that calls runtime.Goexit has lost an attempt. A message may have no more than some
// 3,900 fields: a script cannot copy it, so that it stays pending, and OnError is told.
//
// # Crash, shutdown, and a new policy
//
// A message whose worker died comes again after MinIdle and is run at once, unless the policy
// is exhausted or NonIdempotent. A message that fails after the context of Run has ended comes
// again after a second; [retryjob.Stored] says which failures are still judged. A new policy
// counts from the next attempt on.
//
// A consumer stays in its group when its process has ended. XGROUP DELCONSUMER removes it, and
// with it the new messages that it still has, so give a process the same name again if you can.
// Copies are not lost with their consumer or their group: the next Run makes them due.
//
// # Lost connections
//
// A connection that breaks loses no message. If the server could not be told the outcome, the
// message comes again after MinIdle: a success is run again, and a failure has no other wait.
// If the server hears nothing of a message for MinIdle, another worker gets it; if the first
// still runs it, its failure is not stored. A server that fails over to a replica may forget
// what it has just stored, as with all that Redis stores.
//
// An outcome is told for at most MinIdle. So Run returns that long after its context has ended
// and the functions have returned, even if the server is silent, plus the client's ReadTimeout
// (3 seconds, unless you set it; 10 seconds while a worker waits for messages).
package retrystreams

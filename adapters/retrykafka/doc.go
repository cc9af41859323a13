// Package retrykafka lets a [retry.Policy] decide when a record of Kafka is handled again:
//
//	retries := &retrykafka.Retries{Policy: policy, Options: []kgo.Opt{
//		kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"),
//	}}
//	err = retries.Run(ctx, func(ctx context.Context, r *kgo.Record) error { return work(ctx, r.Value) })
//
// The topic jobs.dead has to exist. Every failure is classified, hints of servers are followed,
// and waits have jitter. [retry.Policy.AttemptTimeout] works as in Execute; the Observer is
// told of an outcome when the commit has stored it; no Budget is asked.
//
// # What it cannot do
//
//   - A record that waits holds up the records behind it in its partition, unless [Retries.Parallel]
//     is set. With Parallel there is no order, and at most 32 records of a partition are under way.
//   - A success that is not committed when the worker dies is repeated. A worker that dies while its
//     commit is on the way may have lost an attempt that did not run.
//   - A dead letter may be there twice: it is written before the commit.
//   - The clocks of workers decide when a wait is over.
//   - Topics need a longer retention than records wait. Brokers need an offset.metadata.max.bytes of
//     4096, the default.
//   - Share groups, which forget the waits, and transactions are refused.
//
// # What Kafka counts, and where the State is
//
// Kafka counts nothing: it has an offset for each group and partition. The [retry.State] is
// in the metadata of that commit, with the records behind the offset that have begun or
// ended. An attempt begins when the commit that says so is done. So an attempt that was lost
// with its worker is known, and is a failure. A worker that the group has expelled cannot
// begin another. A record costs a commit, and a failure one more; with Parallel, one commit
// can begin as many records. Up to 999,999 failures of a record are counted.
//
// # How records wait
//
// A record waits in its partition: there are no retry topics, which lose the order, round
// waits, and leave two copies or a lost count after a crash. Waits are exact, and attempts are
// never early. Behind a record that waits, a partition fetches up to 1000 records, or its share
// of 64 MiB for all partitions, and one fetch more.
//
// # How records end
//
// A record that is given up is copied to the dead letter topic, with its key, headers and time,
// the first 8 KiB of the error in the header retry-error, and the topic, partition and offset in
// retry-source. A panic ends the record; the error has its stack.
//
// If the topic refuses the letter, because it is too large for instance, it is sent with the first
// 256 bytes of the error, then without the error, then without both headers. OnError is told, with
// the error. If the topic refuses the record itself, it gets a letter with both headers, without a
// value, and with the text of retry-source as its key: the record stays where it is, until the
// retention of its topic ends. A letter has up to 32 MiB, unless Options set
// [kgo.ProducerBatchMaxBytes]. Run returns an error if the topic refuses that too, forbids it, or
// takes nothing for a minute; the record is not skipped.
//
// # Errors
//
// An error belongs to a partition: OnError is told, the commit is tried again after a second, and
// the others go on. Partitions that the brokers do not know for ten seconds, because their topic was
// deleted, are left to the group to assign again. If a topic of the same name appears, its records
// are new. Errors of the whole group end Run if they do not go away by themselves.
//
// Every request has a deadline: 30 seconds to begin, 15 for a commit, a minute for a dead letter,
// and the client's for the others.
//
// Run commits itself, without automatic commits. It needs acknowledgements of all replicas, and
// sets OnOffsetsFetched, OnPartitionsRevoked, OnPartitionsLost, WithContext, RecordRetries and
// AllowIdempotentProduceCancellation.
//
// # Crash, shutdown, and a new policy
//
// A record whose worker died runs again when the group has noticed, after SessionTimeout,
// unless the policy is exhausted or NonIdempotent. When a partition moves to another worker,
// the contexts of its attempts end. Attempts that fail then run again there, after a second;
// [retryjob.Stored] says which failures are still judged. An attempt that ignores its context
// for a third of RebalanceTimeout counts as lost. A new policy counts from the next attempt
// on.
package retrykafka

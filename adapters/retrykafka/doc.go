// Package retrykafka lets a [retry.Policy] decide when a record of Kafka is handled again:
//
//	retries := &retrykafka.Retries{Policy: policy, Options: []kgo.Opt{
//		kgo.SeedBrokers("localhost:9092"), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"),
//	}}
//	return retries.Run(ctx, func(ctx context.Context, r *kgo.Record) error { return work(ctx, r.Value) })
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout], Budget and Observer work as in Execute.
//
// The topic jobs.dead has to exist.
//
// # What Kafka counts, and where the State is
//
// Kafka counts nothing: it has an offset for each group and partition. The [retry.State] is
// in the metadata of that commit, with the records behind the offset that have begun or
// ended. An attempt begins when the commit that says so is done. So an attempt that was lost
// with its worker is known, and is a failure. A worker that the group has expelled cannot
// begin another. A record costs a commit, and a failure one more; with Parallel, one commit
// can begin as many records. Topics need a longer retention than records wait, and brokers an
// offset.metadata.max.bytes of 4096, the default.
//
// # How records wait
//
// A record waits in its partition: there are no retry topics, which lose the order, round
// waits, and leave two copies or a lost count after a crash. By default each partition has one
// record under way; while it waits, it holds up the records behind it. Where order does not
// matter, set [Retries.Parallel]. Either way waits are exact, and attempts are never early.
//
// # How records end
//
// A record that is given up is copied to the dead letter topic, with the first 8 KiB of the
// error in the header retry-error, and the topic, partition and offset in retry-source. A
// panic ends the record; the error has its stack. If the dead letter topic does not take a
// record, Run returns the error, and the record is not skipped.
//
// Run commits itself, without automatic commits. It needs acknowledgements of all replicas,
// and sets OnOffsetsFetched, OnPartitionsRevoked and OnPartitionsLost. It refuses a share
// group, which forgets the waits, and a TransactionalID.
//
// # Crash, shutdown, and a new policy
//
// A record whose worker died runs again when the group has noticed, after SessionTimeout,
// unless the policy is exhausted or NonIdempotent. When a partition moves to another worker,
// the contexts of its attempts end. Attempts that fail then run again there, after a second;
// [retry.Stored] says which failures are still judged. An attempt that ignores its context
// for a third of RebalanceTimeout counts as lost. A new policy counts from the next attempt
// on. A success that is not committed when the worker dies is repeated.
package retrykafka

// Package retrykafka has records of Kafka handled again as a [retry.Policy] says:
//
//	retries, err := retrykafka.New(policy,
//		kgo.SeedBrokers("localhost:9092"), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"))
//	if err != nil {
//		return err
//	}
//	return retries.Run(ctx, func(ctx context.Context, r *kgo.Record) error { return work(ctx, r.Value) })
//
// The topic jobs.dead has to exist. Every failure is classified, hints of servers are
// heeded, and waits have jitter. [retry.Policy.AttemptTimeout], Budget and Observer work
// as in Execute.
//
// # How records wait
//
// A record waits where it is, and there are no retry topics. By default each partition
// has one record under way, and one that waits for its retry holds up those behind it,
// so the order of a partition is kept. Where order does not matter, set
// [Retries.Parallel]: so many records of a partition run or wait at the same time, and
// others overtake one that waits. When as many wait, the partition is held up. Either way
// waits are exact, attempts are never early, and brokers keep one copy of a record.
// Retry topics give up the order, round waits to those of the topics, and leave two copies
// or a lost count after a crash between producing one and committing the other.
//
// # What Kafka counts, and where the State is
//
// Kafka counts nothing: it has an offset for each group and partition. The [retry.State]
// is in the metadata of that commit, with what has begun and what has ended behind the
// offset. An attempt begins when the commit that says so is done. So an attempt that was
// lost with its worker is known, and is a failure; and a worker that the group has gone
// on without cannot begin another. A record costs a commit, which also has the end of the
// one before and whatever else has happened since the last commit. A failure costs one
// more. Set Parallel for throughput: a commit can begin so many records.
//
// The offset of a group does not go beyond a record that waits. So topics need a
// retention that is longer than records wait, and the lag of the group says what waits.
// Metadata needs offset.metadata.max.bytes of 4096, the default.
//
// # How records end
//
// A record that is given up is copied to the dead letter topic, with its key and
// headers, the first 8 KiB of the error in the header retry-error, and the topic,
// partition and offset in retry-source. A panic ends the record, one of the
// policy's Observer or Classifier too; the error has its stack. Nothing is passed over: if
// the dead letter topic does not take a record, Run returns the error.
//
// Run commits itself: it switches automatic commits off, needs acknowledgements of all
// replicas, and sets OnOffsetsFetched, OnPartitionsRevoked and OnPartitionsLost in place
// of those in the options. Options that contradict these are refused, as are a share
// group, which forgets the waits, and a TransactionalID.
//
// # Crash, shutdown, and a new policy
//
// A record whose worker died runs again when the group has noticed, after SessionTimeout,
// 45 seconds by default. If the policy is exhausted by then, or is NonIdempotent, since
// the attempt may have taken effect, the record ends without being run. While the group
// moves partitions, no attempt begins. The attempts of a partition that moves to another
// worker end as on a shutdown: their contexts end, they run again elsewhere, and no
// attempt is counted, with the exceptions of [retry.Call.Interrupted]: a failure of a
// NonIdempotent policy is judged. An attempt that ignores this for a third of
// RebalanceTimeout, 20 seconds by default, counts as lost. Eager balancers move all
// partitions each time; the default of the client moves few. A record under way follows a
// new policy from its next failure on.
//
// # What it cannot do
//
// It is no exactly-once: a worker that dies after an attempt has succeeded, and before
// that is committed, has it repeated. Offsets that others commit for the group forget
// what was under way.
package retrykafka

#!/usr/bin/env bash
# Makes docs/evidence/engines.md: runs the conformance tests of all engines, one after the other,
# and has ./table make the page of what they print. It needs the servers that the tests
# need. On a machine that is not quiet, LATE=docs/evidence/engines.md keeps how late attempts were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
columns=()

# see has a column for a test that is printed to the file.
see() { columns+=("$1=$2=$dir/$3"); }

# conform runs the tests of a folder that match, and prints to a file.
conform() {
	echo "engines: $1" >&2
	(cd "../../$1" && go test -count=1 -v -run "$2" .) >"$dir/$3"
}

conform adapters/retryriver '^TestConformance$' river
see River TestConformance river
conform adapters/retryasynq '^TestConformance$' asynq
see asynq TestConformance asynq
conform adapters/retryjetstream '^Test(Conformance|Loopback)$' jetstream
see JetStream TestConformance jetstream
see 'JetStream 2.9' TestLoopback jetstream
conform adapters/retryamqp '^TestConformance' rabbitmq
see 'RabbitMQ, quorum' TestConformance rabbitmq
see 'RabbitMQ, classic' TestConformanceOfClassicQueues rabbitmq
conform adapters/retrystreams '^TestConformance$' streams
see 'Redis Streams' TestConformance streams
conform adapters/retrysqs '^TestConformance' sqs
see SQS TestConformance sqs
see 'SQS, FIFO' TestConformanceOfFIFOQueues sqs
conform adapters/retrykafka '^TestConformance' kafka
see Kafka TestConformance kafka
see 'Kafka, parallel' TestConformanceInParallel kafka
conform adapters/retrywatermill '^TestConformance' watermill
see 'Watermill, memory' TestConformance watermill
see 'Watermill, NATS' TestConformanceOfNATS watermill
see 'Watermill, Redis Streams' TestConformanceOfRedis watermill
see 'Watermill, PostgreSQL' TestConformanceOfSQL watermill
conform adapters/retrypubsub '^TestConformance' pubsub
see Pub/Sub TestConformance pubsub
see 'Pub/Sub, exactly once' TestConformanceExactlyOnce pubsub
conform adapters/retrytemporal '^TestConformance$' temporal
see Temporal TestConformance temporal
conform adapters/retrykube '^Test(Controller|Workqueue)$' kubernetes
see controller-runtime TestController kubernetes
see client-go TestWorkqueue kubernetes
conform internal/test/real/tabletest '^TestConformance$' table
see 'retrytable, PostgreSQL' TestConformance/pgx/timestamptz table
see 'retrytable, MariaDB' TestConformance/mariadb/datetime table
see 'retrytable, SQLite' TestConformance/sqlite/micros table
conform retrytest/enginetest '^TestPool$' pool
see retrypool TestPool pool
go run ./table ${LATE:+-late "../../$LATE"} "${columns[@]}" >"$dir/engines.md"
mv "$dir/engines.md" ../../docs/evidence/engines.md

#!/usr/bin/env bash
# Runs a command with the servers that tests need:
#
#	.ci/services.sh go test ./...
#
# PostgreSQL, MariaDB, Redis, RabbitMQ, NATS and an emulator of SQS are taken where
# RETRY_TEST_POSTGRES, RETRY_TEST_MARIADB, RETRY_TEST_REDIS, RETRY_TEST_AMQP, RETRY_TEST_NATS
# and RETRY_TEST_SQS say, or else at their usual ports on loopback, where postgres, root and
# guest get in without a password of their own. A server that does not answer there is
# installed if that is possible, started in a temporary folder and on a port of its own, and
# ended with the command. If one can be neither installed nor started, nothing is run. FRESH=1
# starts all of them in any case. Chromium and PgBouncer, which the tests start themselves, are
# installed if they are missing.
set -euo pipefail

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# await waits up to a minute for the server at a port, which is a process with a log.
await() {
	for _ in $(seq 600); do
		! answers "$1" || return 0
		kill -0 "$2" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 30 "$3" >&2
	echo "services: a server that was started does not answer at port $1" >&2
	return 1
}

# free_port finds a port where nobody listens, below those of connections, which may be in
# use although nobody listens there.
free_port() {
	local port
	while port=$((RANDOM % 12000 + 20000)) && answers "$port"; do :; done
	echo "$port"
}

# as runs a program as a user that it accepts: servers refuse to run as root.
as() {
	local user=$1
	shift
	if [ "$(id -u)" = 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

own() { if [ "$(id -u)" = 0 ]; then chown "$1" "$2"; fi; }

dir=$(mktemp -d)
chmod 755 "$dir"
stop=()
cleanup() {
	for command in "${stop[@]}"; do $command || true; done
	rm -rf "$dir"
}
trap cleanup EXIT

start_postgres() {
	local bin port data=$dir/postgres
	bin=$(dirname "$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)")
	port=$(free_port)
	mkdir "$data"
	own postgres "$data"
	cd /
	as postgres "$bin/initdb" --auth=trust --username=postgres --no-sync --pgdata="$data/data" >"$dir/initdb.log"
	# Tests of several modules run at once, each with connections of its own.
	as postgres "$bin/pg_ctl" start --wait --silent --pgdata="$data/data" --log="$data/log" \
		-o "-p $port -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=500 -c unix_socket_directories=$data"
	stop+=("as postgres $bin/pg_ctl stop --silent --mode=immediate --pgdata=$data/data")
	createdb --host=127.0.0.1 --port="$port" --username=postgres test
	cd "$OLDPWD"
	export RETRY_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/test?sslmode=disable"
	echo "services: PostgreSQL at port $port"
}

start_mariadb() {
	local port pid data=$dir/mariadb user
	user=$(if [ "$(id -u)" = 0 ]; then echo mysql; else id -un; fi)
	port=$(free_port)
	mkdir "$data"
	own mysql "$data"
	# A server that starts removes all temporary tables in its TMPDIR, those of other servers too.
	TMPDIR=$data mariadb-install-db --no-defaults --user="$user" --datadir="$data/data" \
		--auth-root-authentication-method=normal >"$dir/mariadb-install-db.log"
	TMPDIR=$data mariadbd --no-defaults --user="$user" --datadir="$data/data" --port="$port" --bind-address=127.0.0.1 \
		--max-connections=500 --socket="$data/socket" --pid-file="$data/pid" >"$dir/mariadbd.log" 2>&1 &
	pid=$!
	stop+=("kill $pid" "wait $pid")
	await "$port" "$pid" "$dir/mariadbd.log"
	# The anonymous users would come before root.
	mariadb --no-defaults --socket="$data/socket" --user=root \
		--execute="DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES"
	export RETRY_TEST_MARIADB="root@tcp(127.0.0.1:$port)/test"
	echo "services: MariaDB at port $port"
}

start_redis() {
	local port pid
	port=$(free_port)
	redis-server --port "$port" --bind 127.0.0.1 --dir "$dir" --save '' --appendonly no --daemonize no \
		>"$dir/redis.log" 2>&1 &
	pid=$!
	stop+=("kill $pid" "wait $pid")
	await "$port" "$pid" "$dir/redis.log"
	export RETRY_TEST_REDIS=127.0.0.1:$port
	echo "services: Redis at port $port"
}

# start_rabbitmq needs three ports. If one of them was taken meanwhile, it tries others.
start_rabbitmq() { rabbitmq_node || rabbitmq_node; }

rabbitmq_node() {
	local port dist epmd pid data
	port=$(free_port)
	data=$dir/rabbitmq$port
	dist=$(free_port)
	epmd=$(free_port)
	mkdir "$data"
	# A node with a name, a cookie and ports of its own, beside one that may run. The
	# program in PATH insists on another user.
	HOME=$data RABBITMQ_NODENAME=retry$port@localhost RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=$dist \
		RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE=$data RABBITMQ_LOG_BASE=$data \
		RABBITMQ_PID_FILE=$data/pid RABBITMQ_ENABLED_PLUGINS_FILE=$data/plugins RABBITMQ_CONFIG_FILE=$data/none \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-setcookie retry" \
		ERL_EPMD_PORT=$epmd ERL_EPMD_ADDRESS=127.0.0.1 ERL_CRASH_DUMP_SECONDS=0 \
		"$(ls /usr/lib/rabbitmq/bin/rabbitmq-server 2>/dev/null || command -v rabbitmq-server)" >"$dir/rabbitmq.log" 2>&1 &
	pid=$!
	stop+=("kill $pid" "wait $pid" "env ERL_EPMD_PORT=$epmd epmd -kill")
	await "$port" "$pid" "$dir/rabbitmq.log" || return
	export RETRY_TEST_AMQP=amqp://guest:guest@127.0.0.1:$port/
	echo "services: RabbitMQ at port $port"
}

start_nats() {
	local port pid
	port=$(free_port)
	nats-server --addr 127.0.0.1 --port "$port" --jetstream --store_dir "$dir/nats" >"$dir/nats.log" 2>&1 &
	pid=$!
	stop+=("kill $pid" "wait $pid")
	await "$port" "$pid" "$dir/nats.log"
	export RETRY_TEST_NATS=nats://127.0.0.1:$port
	echo "services: NATS at port $port"
}

# start_sqs starts fauxqs on loopback, where its own program would listen everywhere. Version
# 2 needs a newer Node.js.
start_sqs() {
	local port pid
	port=$(free_port)
	mkdir "$dir/sqs"
	npm install --prefix "$dir/sqs" --silent --no-audit --no-fund fauxqs@1.9.2
	cd "$dir/sqs"
	node --input-type=module --eval "import { buildApp } from 'fauxqs'
		await buildApp({ logger: false }).listen({ host: '127.0.0.1', port: $port })" >"$dir/sqs.log" 2>&1 &
	pid=$!
	cd "$OLDPWD"
	stop+=("kill $pid" "wait $pid")
	await "$port" "$pid" "$dir/sqs.log"
	export RETRY_TEST_SQS=http://127.0.0.1:$port
	echo "services: SQS at port $port"
}

# A server may answer and let nobody in without a password.
postgres_ready() {
	psql --no-password --quiet --command='SELECT 1' postgres://postgres@127.0.0.1:5432/test
}
mariadb_ready() {
	mariadb --no-defaults --host=127.0.0.1 --user=root --execute='SELECT 1' test
}
redis_ready() { answers 6379; }
rabbitmq_ready() { answers 5672; }
nats_ready() { answers 4222; }
sqs_ready() { answers 4566; }

# wanted says that there is no server where the tests look for one.
wanted() {
	local variable=$1 ready=$2
	[ -n "${FRESH:-}" ] || { [ -z "${!variable:-}" ] && ! $ready >/dev/null 2>&1; }
}

start=()
programs=()
want() {
	if wanted "$1" "$2_ready"; then
		start+=("start_$2")
		programs+=("${@:3}")
	fi
}
want RETRY_TEST_POSTGRES postgres psql:postgresql initdb:postgresql
want RETRY_TEST_MARIADB mariadb mariadb:mariadb-client mariadbd:mariadb-server mariadb-install-db:mariadb-server
want RETRY_TEST_REDIS redis redis-server:redis-server
want RETRY_TEST_AMQP rabbitmq rabbitmq-server:rabbitmq-server
want RETRY_TEST_NATS nats nats-server:nats-server
want RETRY_TEST_SQS sqs node:nodejs npm:npm
# The playground is tested in it.
command -v chromium >/dev/null || command -v google-chrome >/dev/null || programs+=(chromium:chromium)
# Tests of transactions start one in front of PostgreSQL.
[ -x "$(command -v pgbouncer || echo /usr/sbin/pgbouncer)" ] || programs+=(pgbouncer:pgbouncer)
[ "${#programs[@]}" = 0 ] || "$(dirname "${BASH_SOURCE[0]}")/install.sh" "${programs[@]}"
for service in "${start[@]}"; do $service; done
"$@"

#!/usr/bin/env bash
# Runs a command with the databases that tests need:
#
#	ci/services.sh go test ./...
#
# PostgreSQL and MariaDB are taken where RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB
# say, or else at their usual ports on loopback, where the user postgres and the
# user root get in without a password. A server that does not answer there is
# started here, if it is installed, in a temporary folder and on a port of its own,
# and ended with the command. FRESH=1 starts both in any case.
set -euo pipefail

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
	local port
	while port=$((RANDOM % 20000 + 20000)) && answers "$port"; do :; done
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
	bin=$(dirname "$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)")
	if [ ! -x "$bin/initdb" ]; then
		echo "services: PostgreSQL does not answer and is not installed (Debian: apt install postgresql)" >&2
		return
	fi
	port=$(free_port)
	mkdir "$data"
	own postgres "$data"
	cd /
	as postgres "$bin/initdb" --auth=trust --username=postgres --no-sync --pgdata="$data/data" >"$dir/initdb.log"
	as postgres "$bin/pg_ctl" start --wait --silent --pgdata="$data/data" --log="$data/log" \
		-o "-p $port -c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories=$data"
	stop+=("as postgres $bin/pg_ctl stop --silent --mode=immediate --pgdata=$data/data")
	createdb --host=127.0.0.1 --port="$port" --username=postgres test
	cd "$OLDPWD"
	export RETRY_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/test
	echo "services: PostgreSQL at port $port"
}

start_mariadb() {
	local port pid data=$dir/mariadb user
	if ! command -v mariadbd >/dev/null || ! command -v mariadb-install-db >/dev/null; then
		echo "services: MariaDB does not answer and is not installed (Debian: apt install mariadb-server)" >&2
		return
	fi
	user=$(if [ "$(id -u)" = 0 ]; then echo mysql; else id -un; fi)
	port=$(free_port)
	mkdir "$data"
	own mysql "$data"
	mariadb-install-db --no-defaults --user="$user" --datadir="$data/data" \
		--auth-root-authentication-method=normal >"$dir/mariadb-install-db.log"
	mariadbd --no-defaults --user="$user" --datadir="$data/data" --port="$port" --bind-address=127.0.0.1 \
		--socket="$data/socket" --pid-file="$data/pid" >"$dir/mariadbd.log" 2>&1 &
	pid=$!
	stop+=("kill $pid" "wait $pid")
	for _ in $(seq 100); do
		! answers "$port" || break
		sleep 0.1
	done
	# The anonymous users would come before root.
	mariadb --no-defaults --socket="$data/socket" --user=root \
		--execute="DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES"
	export RETRY_TEST_MARIADB="root@tcp(127.0.0.1:$port)/test"
	echo "services: MariaDB at port $port"
}

# A server may answer and let nobody in without a password.
postgres_ready() {
	psql --no-password --quiet --command='SELECT 1' postgres://postgres@127.0.0.1:5432/test
}
mariadb_ready() {
	mariadb --no-defaults --host=127.0.0.1 --user=root --execute='SELECT 1' test
}

# wanted says that there is no server where the tests look for one.
wanted() {
	local variable=$1 ready=$2
	[ -n "${FRESH:-}" ] || { [ -z "${!variable:-}" ] && ! $ready >/dev/null 2>&1; }
}

if wanted RETRY_TEST_POSTGRES postgres_ready; then start_postgres; fi
if wanted RETRY_TEST_MARIADB mariadb_ready; then start_mariadb; fi
"$@"

// Package tabletest tests package retrytable with real databases: PostgreSQL,
// through pgx and lib/pq, and SQLite. It has a module of its own, so that the
// drivers are not requirements of the library.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user
// postgres, without a password. RETRY_TEST_POSTGRES names another, as
// postgres://user:password@host:5432/database. They make schemas with random
// names, and drop them.
//
// What claims cost in large tables, with the plans of the statements:
//
//	go test -run '^$' -bench . -benchtime 900x
package tabletest

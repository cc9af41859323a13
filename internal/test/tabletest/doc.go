// Package tabletest tests package retrytable with real databases: PostgreSQL,
// through pgx and lib/pq, SQLite, and MariaDB, through go-sql-driver/mysql. It has a module of its own, so that the
// drivers are not requirements of the library.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user
// postgres, and MariaDB on 127.0.0.1:3306 with a database "test" for user root, both
// without a password. RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB name others:
//
//	RETRY_TEST_POSTGRES=postgres://user:password@host:5432/database
//	RETRY_TEST_MARIADB=user:password@tcp(host:3306)/database
//
// They make schemas and databases with random names, and drop them.
package tabletest

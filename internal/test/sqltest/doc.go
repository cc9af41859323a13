// Package sqltest tests package retrysql with real databases and real drivers:
// PostgreSQL, MariaDB and SQLite, and with GORM, sqlx and ent. It has a module of its own, so that the drivers
// are not requirements of the library, which knows their errors by shape only.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user
// postgres, and MariaDB on 127.0.0.1:3306 with a database "test" for user root,
// both without a password. RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB name others:
//
//	RETRY_TEST_POSTGRES=postgres://user:password@host:5432/database
//	RETRY_TEST_MARIADB=user:password@tcp(host:3306)/database
//
// They also need the programs initdb, pg_ctl and postgres, in the path or below
// /usr/lib/postgresql, for a server of their own that they restart, and pgbouncer.
package sqltest

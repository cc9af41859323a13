// Package ormtest tests how code that wants a GORM, sqlx or ent handle runs in a
// transaction of retrysql.InTx, against PostgreSQL. It has a module of its own, so that
// these libraries are requirements of nothing else. docs/recipes.md shows the code.
//
// An ent client is generated code, of which there is none here. Its drivers are what it
// is made of, with ent.Driver, so the tests use package sqlgraph, which a client calls.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user postgres
// without a password. RETRY_TEST_POSTGRES names another:
//
//	RETRY_TEST_POSTGRES=postgres://user:password@host:5432/database
package ormtest

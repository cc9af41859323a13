package sqltest_test

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"gorm.io/gorm"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// retrysql.InTx for code that wants something else than a *sql.Tx. docs/recipes.md shows
// these functions.

func inGORM(
	ctx context.Context, db *gorm.DB, p *retry.Policy, opts *retrysql.TxOptions, fn func(*gorm.DB) error,
) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return retrysql.InTx(ctx, pool, p, opts, func(ctx context.Context, tx *sql.Tx) error {
		session := db.WithContext(ctx)
		session.Statement.ConnPool = tx // as GORM's own Begin does
		return fn(session)
	})
}

func inSQLX(
	ctx context.Context, db *sqlx.DB, p *retry.Policy, opts *retrysql.TxOptions, fn func(context.Context, *sqlx.Tx) error,
) error {
	return retrysql.InTx(ctx, db.DB, p, opts, func(ctx context.Context, tx *sql.Tx) error {
		return fn(ctx, &sqlx.Tx{Tx: tx, Mapper: db.Mapper})
	})
}

// entTx is the driver of an ent client in a transaction that has begun. The client's own
// transactions are parts of it.
type entTx struct{ dialect.Driver }

func (d entTx) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

func inEnt(
	ctx context.Context, db *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, fn func(context.Context, dialect.Driver) error,
) error {
	return retrysql.InTx(ctx, db, p, opts, func(ctx context.Context, tx *sql.Tx) error {
		return fn(ctx, entTx{entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})})
	})
}

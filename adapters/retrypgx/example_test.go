package retrypgx_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
)

func ExampleInTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn())
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	policy := &retry.Policy{Name: "transfer"}

	err = retrypgx.InTx(ctx, pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "NOTIFY transfers")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// A batch is made anew for every attempt.
func ExampleInTx_batch() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn())
	if err != nil {
		panic(err)
	}
	defer pool.Close()

	policy := &retry.Policy{Name: "transfer"}
	var sum int
	err = retrypgx.InTx(ctx, pool, policy, &retrypgx.Options{Tx: pgx.TxOptions{IsoLevel: pgx.Serializable}},
		func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("SELECT $1::int + $2::int", 100, 50).QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
			batch.Queue("SELECT pg_notify('transfers', 'done')")
			return tx.SendBatch(ctx, batch).Close()
		})
	fmt.Println(sum, err)
	// Output: 150 <nil>
}

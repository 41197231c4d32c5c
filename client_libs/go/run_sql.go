// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"
	"database/sql"
)

// RunSQL commits what work does in one transaction, once. The work may run several times. The driver's errors must have the method
// SQLState, as those of pgx/stdlib.
func RunSQL(ctx context.Context, db *sql.DB, work func(*sql.Tx) error, options ...Options) error {
	once := func(tried *attempt) error { return onceSQL(ctx, db, work, tried) }
	return first(options).run(ctx, once, askSQL(db))
}

// OutcomeSQL is "committed", "aborted" or, of a very old transaction, "forgotten". It fails with OutcomeUnknown while nobody answers.
func OutcomeSQL(ctx context.Context, db *sql.DB, id string, options ...Options) (string, error) {
	return first(options).outcome(ctx, id, askSQL(db))
}

func onceSQL(ctx context.Context, db *sql.DB, work func(*sql.Tx) error, tried *attempt) error {
	connection, err := db.Conn(ctx)
	if err != nil {
		tried.isLost = true
		return err
	}
	defer connection.Close()
	tx, err := connection.BeginTx(ctx, nil)
	if err != nil {
		tried.isLost = connection.PingContext(ctx) != nil
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err = work(tx); err == nil {
		err = tx.QueryRowContext(ctx, findPsp).Scan(&tried.hasPsp)
	}
	if err == nil && tried.hasPsp {
		err = tx.QueryRowContext(ctx, findID).Scan(&tried.id)
	}
	if err == nil {
		tried.isCommitting = true
		err = tx.Commit()
	}
	if err != nil {
		_ = tx.Rollback() // or the ping would wait for the transaction's end
		tried.isLost = connection.PingContext(ctx) != nil
	}
	return err
}

func askSQL(db *sql.DB) func(context.Context, string) (string, error) {
	return func(ctx context.Context, id string) (string, error) {
		var outcome string
		err := db.QueryRowContext(ctx, findOutcome, id).Scan(&outcome)
		return outcome, err
	}
}

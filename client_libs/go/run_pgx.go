// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Run commits what work does in one transaction, once. The work may run several times.
func Run(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error, options ...Options) error {
	once := func(tried *attempt) error { return oncePgx(ctx, pool, work, tried) }
	return first(options).run(ctx, once, askPgx(pool))
}

// Outcome is "committed", "aborted" or, of a very old transaction, "forgotten". It fails with OutcomeUnknown while nobody answers.
func Outcome(ctx context.Context, pool *pgxpool.Pool, id string, options ...Options) (string, error) {
	return first(options).outcome(ctx, id, askPgx(pool))
}

func oncePgx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error, tried *attempt) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		tried.isLost = true
		return err
	}
	connection := tx.Conn()
	defer tx.Rollback(context.Background()) //nolint:errcheck // after a commit there is nothing to roll back
	if err = work(tx); err == nil {
		err = beginCommit(ctx, tx, tried)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	tried.isLost = connection.IsClosed()
	return err
}

type querier interface {
	QueryRow(ctx context.Context, query string, arguments ...any) pgx.Row
}

func beginCommit(ctx context.Context, session querier, tried *attempt) error {
	err := session.QueryRow(ctx, findPsp).Scan(&tried.hasPsp)
	if err == nil && tried.hasPsp {
		err = session.QueryRow(ctx, findID).Scan(&tried.id)
	}
	tried.isCommitting = err == nil
	return err
}

func askPgx(session querier) func(context.Context, string) (string, error) {
	return func(ctx context.Context, id string) (string, error) {
		var outcome string
		err := session.QueryRow(ctx, findOutcome, id).Scan(&outcome)
		return outcome, err
	}
}

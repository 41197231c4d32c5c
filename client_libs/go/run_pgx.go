// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is a *pgxpool.Pool, or Pools.
type Pool interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	QueryRow(ctx context.Context, query string, arguments ...any) pgx.Row
}

// Pools are those of several semi-primaries. Where one is gone, Run goes on at the next, which has what was committed and seen before. To be made
// once in a program.
type Pools struct {
	pools  []*pgxpool.Pool
	places *places
}

// NewPools takes the nearest semi-primary's first. The connection string of each names one host.
func NewPools(nearest *pgxpool.Pool, others ...*pgxpool.Pool) *Pools {
	return &Pools{append([]*pgxpool.Pool{nearest}, others...), newPlaces(1 + len(others))}
}

// Begin begins at the semi-primary that is used, without a wait: Run does more.
func (p *Pools) Begin(ctx context.Context) (pgx.Tx, error) {
	return p.pools[p.places.current()].Begin(ctx)
}

// QueryRow asks the semi-primary that is used, without a wait.
func (p *Pools) QueryRow(ctx context.Context, query string, arguments ...any) pgx.Row {
	return p.pools[p.places.current()].QueryRow(ctx, query, arguments...)
}

func placesOf(pool Pool) (*places, func(place int) Pool) {
	if several, isSeveral := pool.(*Pools); isSeveral {
		return several.places, func(place int) Pool { return several.pools[place] }
	}
	return newPlaces(1), func(int) Pool { return pool }
}

func askPgx(at func(place int) Pool) ask {
	return func(ctx context.Context, place int, query string, arguments ...any) (text string, err error) {
		err = at(place).QueryRow(ctx, query, arguments...).Scan(&text)
		return text, err
	}
}

// Run commits what work does in one transaction, once. The work may run several times.
func Run(ctx context.Context, pool Pool, work func(pgx.Tx) error, options ...Options) error {
	places, at := placesOf(pool)
	return first(options).runAt(ctx, places, askPgx(at), func(place int, tried *attempt) error {
		return oncePgx(ctx, at(place), work, tried)
	})
}

// Outcome is "committed", "aborted" or, of a very old transaction, "forgotten". It fails with OutcomeUnknown while nobody answers.
func Outcome(ctx context.Context, pool Pool, id string, options ...Options) (string, error) {
	places, at := placesOf(pool)
	return first(options).outcome(ctx, id, places.outcome(askPgx(at)))
}

func oncePgx(ctx context.Context, pool Pool, work func(pgx.Tx) error, tried *attempt) error {
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

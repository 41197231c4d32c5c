// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"
	"database/sql"
)

// DB is a *sql.DB, or DBs.
type DB interface {
	Conn(ctx context.Context) (*sql.Conn, error)
	QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row
}

// DBs are those of several semi-primaries, as Pools are for pgx.
type DBs struct {
	dbs    []*sql.DB
	places *places
}

// NewDBs takes the nearest semi-primary's first. The connection string of each names one host.
func NewDBs(nearest *sql.DB, others ...*sql.DB) *DBs {
	return &DBs{append([]*sql.DB{nearest}, others...), newPlaces(1 + len(others))}
}

// Conn connects to the semi-primary that is used, without a wait: RunSQL does more.
func (d *DBs) Conn(ctx context.Context) (*sql.Conn, error) {
	return d.dbs[d.places.current()].Conn(ctx)
}

// QueryRowContext asks the semi-primary that is used, without a wait.
func (d *DBs) QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row {
	return d.dbs[d.places.current()].QueryRowContext(ctx, query, arguments...)
}

func placesOfSQL(db DB) (*places, func(place int) DB) {
	if several, isSeveral := db.(*DBs); isSeveral {
		return several.places, func(place int) DB { return several.dbs[place] }
	}
	return newPlaces(1), func(int) DB { return db }
}

func askSQL(at func(place int) DB) ask {
	return func(ctx context.Context, place int, query string, arguments ...any) (text string, err error) {
		err = at(place).QueryRowContext(ctx, query, arguments...).Scan(&text)
		return text, err
	}
}

// RunSQL commits what work does in one transaction, once. The work may run several times. The driver's errors must have the method
// SQLState, as those of pgx/stdlib.
func RunSQL(ctx context.Context, db DB, work func(*sql.Tx) error, options ...Options) error {
	places, at := placesOfSQL(db)
	return first(options).runAt(ctx, places, askSQL(at), func(place int, tried *attempt) error {
		return onceSQL(ctx, at(place), work, tried)
	})
}

// OutcomeSQL is "committed", "aborted" or, of a very old transaction, "forgotten". It fails with OutcomeUnknown while nobody answers.
func OutcomeSQL(ctx context.Context, db DB, id string, options ...Options) (string, error) {
	places, at := placesOfSQL(db)
	return first(options).outcome(ctx, id, places.outcome(askSQL(at)))
}

func onceSQL(ctx context.Context, db DB, work func(*sql.Tx) error, tried *attempt) error {
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

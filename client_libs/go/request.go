// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// Request is what makes two attempts the same one: psp.request, docs/once.md.
type Request struct {
	Key     string         // chosen by the client that begins it, and sent with each attempt
	Payload string         // what it asks for; the same key with another one is an error (PS422)
	OfRole  string         // the role whose request it is; empty: the connection's
	Wait    *time.Duration // for another attempt at the same semi-primary (55P03 afterwards); nil: until it has ended
}

// RequestFailed: the request has failed for good, by psp.request_failed.
type RequestFailed struct{ Result json.RawMessage }

func (e *RequestFailed) Error() string { return "psp: the request has failed: " + string(e.Result) }

const (
	askRequest = "SELECT state, coalesce(failed, false), result::pg_catalog.text FROM psp.request($1, $2, " +
		"of_role => nullif($3, ''), wait => pg_catalog.make_interval(secs => $4))"
	storeResult = "SELECT psp.request_done($1::pg_catalog.text::pg_catalog.jsonb)"
)

// RunValue is Run for work that gives a value, that of the attempt which was committed.
func RunValue[T any](ctx context.Context, pool Pool, work func(pgx.Tx) (T, error), options ...Options) (T, error) {
	var value T
	err := Run(ctx, pool, func(tx pgx.Tx) (err error) {
		value, err = work(tx)
		return err
	}, options...)
	return value, err
}

// RunRequest is RunValue for a request that is served once, how often and where it may be asked: its value is stored as JSON with the work, and
// later attempts get what was stored.
func RunRequest[T any](ctx context.Context, pool Pool, request Request, work func(pgx.Tx) (T, error), options ...Options) (T, error) {
	return RunValue(ctx, pool, func(tx pgx.Tx) (T, error) {
		value, isKnown, err := request.ask(ctx, tx)
		if err == nil && !isKnown {
			value, err = request.serve(ctx, tx, func() (any, error) { return work(tx) })
		}
		var found T
		if err == nil && value != nil {
			err = json.Unmarshal(value, &found)
		}
		return found, err
	}, options...)
}

// The stored result, if the request is known.
func (r Request) ask(ctx context.Context, tx pgx.Tx) (json.RawMessage, bool, error) {
	var state string
	var failed bool
	var result *string
	var seconds *float64
	if r.Wait != nil {
		waited := r.Wait.Seconds()
		seconds = &waited
	}
	if err := tx.QueryRow(ctx, askRequest, r.Key, r.Payload, r.OfRole, seconds).Scan(&state, &failed, &result); err != nil {
		return nil, false, err
	}
	if state == "new" {
		return nil, false, nil
	}
	var value json.RawMessage
	if result != nil {
		value = json.RawMessage(*result)
	}
	if failed {
		return nil, true, &RequestFailed{Result: value}
	}
	return value, true, nil
}

func (r Request) serve(ctx context.Context, tx pgx.Tx, work func() (any, error)) (json.RawMessage, error) {
	value, err := work()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err == nil {
		_, err = tx.Exec(ctx, storeResult, string(text))
	}
	return text, err
}

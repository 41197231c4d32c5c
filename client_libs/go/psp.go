// SPDX-License-Identifier: PostgreSQL

// Package psp commits units of work at semi-primaries of psp, each once: Run for pgx, RunSQL for database/sql, and Client, which
// works in views mode as well. README.md beside this file tells what each promises.
package psp

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"time"
)

// Options says how often and how long. The zero value has the defaults.
type Options struct {
	Attempts      int           // of the work, the first one among them; 30
	FirstPause    time.Duration // before the second attempt up to twice this, then the bound doubles; 10 ms
	LongestPause  time.Duration // 2 s
	Timeout       time.Duration // after which an outcome that nobody tells counts as unknown; 60 s
	RetryInterval time.Duration // after which a request of views mode is sent again; 2 s
	Isolation     string        // of a Client's transactions; "repeatable read"
}

// OutcomeUnknown: nobody has told in time whether the transaction is committed. Outcome asks again, at any time. Or the question came so
// late that the primary has forgotten the transaction; then it stays so.
type OutcomeUnknown struct {
	ID    string // of the transaction, for psp.outcome
	Cause error
}

func (e *OutcomeUnknown) Error() string {
	return fmt.Sprintf("psp: transaction %s may be committed or not: %v", e.ID, e.Cause)
}

func (e *OutcomeUnknown) Unwrap() error { return e.Cause }

// SQLState is that of transaction_resolution_unknown.
func (e *OutcomeUnknown) SQLState() string { return "08007" }

// Error is what psp says of a transaction that it has not committed.
type Error struct{ Code, Message, Detail, Hint string }

func (e *Error) Error() string {
	text := e.Message + " (SQLSTATE " + e.Code + ")"
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// SQLState is the code, as with the errors of drivers.
func (e *Error) SQLState() string { return e.Code }

const (
	findPsp     = "SELECT pg_catalog.to_regprocedure('psp.transaction_id()') IS NOT NULL"
	findID      = "SELECT CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN psp.transaction_id()::text END"
	findOutcome = "SELECT psp.outcome($1::text::uuid)::text"
	committed   = "committed"
	forgotten   = "forgotten"
)

// Classes of SQLSTATEs after which the same work may succeed.
var isAgain = map[string]bool{"40": true, "08": true, "53": true, "57": true}

// SQLSTATEs of a COMMIT that has certainly rolled back.
var isRolledBack = map[string]bool{
	"40001": true, "40P01": true, "40000": true, "08006": true, "0A000": true, "53200": true, "54000": true,
}

var betweenQuestions = Options{FirstPause: 100 * time.Millisecond, LongestPause: 1500 * time.Millisecond}

// One transaction, from the moment at which only its COMMIT is left.
type attempt struct {
	hasPsp       bool
	isCommitting bool
	isLost       bool    // the connection
	isInVain     bool    // the wait for what must be seen
	id           *string // nil: it has written nothing
}

func (a *attempt) mayBeCommitted(err error) bool {
	code := sqlstate(err)
	return a.isCommitting && !isRolledBack[code] && (code == "" || code[:2] != "23")
}

func (a *attempt) isWorthAnother(err error) bool {
	code := sqlstate(err)
	return !a.isInVain && (a.isLost && code == "" || code != "" && isAgain[code[:2]])
}

// Runs once until it has committed. ask asks for an outcome, one time.
func (o Options) run(ctx context.Context, once func(*attempt) error, ask func(context.Context, string) (string, error)) error {
	for failures := 1; ; failures++ {
		var tried attempt
		err := once(&tried)
		if err == nil {
			return nil
		}
		if tried.mayBeCommitted(err) {
			if !tried.hasPsp {
				return err
			}
			if tried.id != nil {
				isCommitted, unknown := o.isCommitted(ctx, *tried.id, ask)
				if unknown != nil || isCommitted {
					return unknown
				}
			}
		}
		if failures >= o.attempts() || ctx.Err() != nil || !tried.isWorthAnother(err) {
			return err
		}
		o.pause(ctx, failures)
	}
}

// Asks until there is an answer, which is final.
func (o Options) outcome(ctx context.Context, id string, ask func(context.Context, string) (string, error)) (string, error) {
	limited, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	for failures := 1; ; failures++ {
		outcome, err := ask(limited, id)
		if err == nil {
			return outcome, nil
		}
		if code := sqlstate(err); limited.Err() != nil || code != "" && !isAgain[code[:2]] {
			return "", &OutcomeUnknown{ID: id, Cause: err}
		}
		betweenQuestions.pause(limited, failures)
	}
}

func (o Options) isCommitted(ctx context.Context, id string, ask func(context.Context, string) (string, error)) (bool, error) {
	outcome, err := o.outcome(ctx, id, ask)
	if outcome == forgotten {
		err = isForgotten(id)
	}
	return outcome == committed, err
}

func isForgotten(id string) error {
	return &OutcomeUnknown{ID: id, Cause: errors.New("it is forgotten")}
}

func (o Options) pause(ctx context.Context, failures int) {
	bound := positive(o.FirstPause, 10*time.Millisecond)
	longest := positive(o.LongestPause, 2*time.Second)
	for ; failures > 0 && bound < longest; failures-- {
		bound *= 2
	}
	if bound > longest {
		bound = longest
	}
	timer := time.NewTimer(time.Duration(rand.Int63n(int64(bound)) + 1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (o Options) attempts() int {
	if o.Attempts > 0 {
		return o.Attempts
	}
	return 30
}

func (o Options) timeout() time.Duration { return positive(o.Timeout, time.Minute) }

func positive(given, fallback time.Duration) time.Duration {
	if given > 0 {
		return given
	}
	return fallback
}

func first(options []Options) Options {
	if len(options) > 0 {
		return options[0]
	}
	return Options{}
}

// The errors of drivers have the method.
func sqlstate(err error) string {
	var found interface{ SQLState() string }
	if errors.As(err, &found) && len(found.SQLState()) == 5 {
		return found.SQLState()
	}
	return ""
}

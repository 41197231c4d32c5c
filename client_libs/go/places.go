// SPDX-License-Identifier: PostgreSQL
package psp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

const (
	findToken    = "SELECT psp.token()"
	waitForToken = "SELECT psp.wait_for($1)::pg_catalog.text"
	// A COMMIT that is decided after everything that is known to be committed: its token covers all that.
	commitFence = "SELECT psp.request_done('null')::pg_catalog.text FROM psp.request($1, '')"
	backAfter   = time.Minute
)

// SQLSTATEs after which another semi-primary may do better.
var isOfGone = map[string]bool{"08006": true, "57P01": true, "57P02": true, "57P03": true}

// Ways to several semi-primaries, the nearest first, by their numbers: which one is used, and what must be seen there. Where one is gone the next
// is taken; the nearest is tried again once in backAfter.
type places struct {
	count int
	seen  Seen
	now   func() time.Time

	mutex sync.Mutex
	at    int
	left  time.Time
	sps   map[int]int64 // the semi-primary's number at a place, as a token told it
}

func newPlaces(count int) *places {
	return &places{count: count, now: time.Now, sps: map[int]int64{}}
}

func (p *places) current() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.at != 0 && p.now().Sub(p.left) >= backAfter {
		p.at = 0
	}
	return p.at
}

// It cannot be reached: the next one, unless another goroutine has gone there already.
func (p *places) leave(place int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.sps, place) // it may come back with less, for a moment
	if p.at == place {
		p.at, p.left = (place+1)%p.count, p.now()
	}
}

func (p *places) spAt(place int) int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.sps[place]
}

func (p *places) note(ctx context.Context, place int, t token) {
	p.mutex.Lock()
	p.sps[place] = t.sp
	p.mutex.Unlock()
	p.noteSeen(ctx, t)
}

func (p *places) noteSeen(ctx context.Context, t token) {
	p.seen.note(t)
	if user := seenIn(ctx); user != nil {
		user.note(t)
	}
}

// Whether anybody carries tokens.
func (p *places) needTokens(ctx context.Context) bool { return p.count > 1 || seenIn(ctx) != nil }

// The value of a query that is a transaction of its own, at a place.
type ask func(ctx context.Context, place int, query string, arguments ...any) (string, error)

// Waits until what must be seen is there.
func (p *places) reach(ctx context.Context, place int, ask ask) error {
	wait := func(seen *Seen, sp int64) error {
		text := seen.wantedAt(sp)
		if text == "" {
			return nil
		}
		_, err := ask(ctx, place, waitForToken, text)
		if code := sqlstate(err); code == "22023" || code == "55000" { // it is not in this cluster, or not any more
			seen.forget()
			return nil
		}
		return err
	}
	err := wait(&p.seen, p.spAt(place))
	if user := seenIn(ctx); err == nil && user != nil {
		err = wait(user, 0)
	}
	return err
}

// After a COMMIT: what a later transaction has to see. isLost: its answer was.
func (p *places) noteCommit(ctx context.Context, o Options, place int, isLost bool, ask ask) {
	if !isLost {
		text, err := ask(ctx, place, findToken)
		if found, isToken := parseToken(text); err == nil && isToken {
			p.note(ctx, place, found)
			return
		}
		if code := sqlstate(err); code != "" && !isOfGone[code] {
			return // it joins, for example
		}
		p.leave(place)
	}
	p.fence(ctx, o, ask)
}

// At any semi-primary, which may not have applied yet what was committed. If none serves it in time the older token stays.
func (p *places) fence(ctx context.Context, o Options, ask ask) {
	limited, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	for failures := 1; ; failures++ {
		place := p.current()
		_, err := ask(limited, place, commitFence, fenceKey())
		if err == nil {
			var text string
			text, err = ask(limited, place, findToken)
			if found, isToken := parseToken(text); err == nil && isToken {
				found.sp = 0
				p.noteSeen(ctx, found)
				return
			}
		}
		code := sqlstate(err)
		if limited.Err() != nil || code != "" && !isAgain[code[:2]] {
			return
		}
		if code == "" || isOfGone[code] {
			p.leave(place)
		}
		betweenQuestions.pause(limited, failures)
	}
}

func fenceKey() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it cannot fail where Go runs
	return "psp " + hex.EncodeToString(bytes[:])
}

// Runs once, at a place, until it has committed.
func (o Options) runAt(ctx context.Context, p *places, ask ask, once func(place int, tried *attempt) error) error {
	place, isLost, hasPsp := 0, false, false
	try := func(tried *attempt) error {
		place = p.current()
		err := p.reach(ctx, place, ask)
		if err != nil {
			tried.isLost = sqlstate(err) == ""
			tried.isInVain = sqlstate(err) == "57014" // a user may have invented the token: not again
		} else {
			err = once(place, tried)
		}
		if err != nil && (tried.isLost || isOfGone[sqlstate(err)]) {
			p.leave(place)
		}
		isLost, hasPsp = err != nil, tried.hasPsp
		return err
	}
	err := o.run(ctx, try, p.outcome(ask))
	if err == nil && hasPsp && p.needTokens(ctx) {
		p.noteCommit(ctx, o, place, isLost, ask)
	}
	return err
}

// Asks the semi-primaries in turns.
func (p *places) outcome(ask ask) func(context.Context, string) (string, error) {
	return func(ctx context.Context, id string) (string, error) {
		place := p.current()
		outcome, err := ask(ctx, place, findOutcome, id)
		if code := sqlstate(err); err != nil && (code == "" || isOfGone[code]) {
			p.leave(place)
		}
		return outcome, err
	}
}
